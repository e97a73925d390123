#pragma once
/// How a stand-in shows the thread sanitizer what a GPU orders, and nothing more. Its own mutexes
/// order far more: two threads that call it one after the other, or a stream's thread and the next
/// caller. These would hide every missing wait of the code under test. So all of its bookkeeping
/// runs in an `Unseen` scope, and order is passed on by `publish` and `observe` alone:
/// - enqueueing publishes, the stream's thread observes before it does the work;
/// - a stream's thread publishes when it passes a recorded event; a query that says "done", a
///   synchronisation and a wait of another stream observe.
///
/// Without the sanitizer these are nothing, and the mutexes order the memory.
namespace standin {

extern "C" {
[[gnu::weak]] void AnnotateIgnoreSyncBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreSyncEnd(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreReadsBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreReadsEnd(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreWritesBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreWritesEnd(const char* file, int line);
[[gnu::weak]] void __tsan_acquire(void* address);  // NOLINT(bugprone-reserved-identifier)
[[gnu::weak]] void __tsan_release(void* address);  // NOLINT(bugprone-reserved-identifier)
}

class Unseen {
 public:
  Unseen() {
    if (AnnotateIgnoreSyncBegin == nullptr) return;
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    if (AnnotateIgnoreSyncBegin == nullptr) return;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// Everything that this thread has done happens before the code that follows an `observe` of the
/// same address.
inline void publish(void* address) {
  if (__tsan_release != nullptr) __tsan_release(address);
}
inline void observe(void* address) {
  if (__tsan_acquire != nullptr) __tsan_acquire(address);
}

}  // namespace standin
