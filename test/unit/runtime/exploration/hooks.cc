// The places at which the code under test meets `Threads`. That code is compiled for the thread
// sanitizer, and linked with these functions instead of the sanitizer's own. Its calls of the
// system are wrapped.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <new>

#include "threads.h"

namespace {

using tutti::test::Threads;
using tutti::test::Time;

Threads* playing(const volatile void* at) {
  Threads* const threads = Threads::current();
  return threads != nullptr && threads->is_shared(at) ? threads : nullptr;
}

/// One atomic operation, which makes `change(before)` of the value. What it was before.
template <typename T, typename Change>
T atomic(const char* what, volatile T* at, const Change& change) {
  Threads* const threads = playing(at);
  if (threads != nullptr) threads->step(what, at);
  const T before = *at;
  const T after = change(before);
  if (after != before) *at = after;
  return before;
}

Time time_of(const timespec* at) {
  constexpr Time second = 1'000'000'000;
  if (at == nullptr || at->tv_sec > std::numeric_limits<Time>::max() / second - 1) {
    return std::numeric_limits<Time>::max();
  }
  return at->tv_sec * second + at->tv_nsec;
}

}  // namespace

void* operator new(std::size_t bytes) {
  if (Threads* const threads = Threads::current()) return threads->allocate(bytes);
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  if (!Threads::has_allocated(memory)) std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

#define TUTTI_ATOMICS(bits, T)                                                          \
  T __tsan_atomic##bits##_load(const volatile void* at, int) {                          \
    return atomic("reads", static_cast<volatile T*>(const_cast<volatile void*>(at)),    \
                  [](T was) { return was; });                                           \
  }                                                                                     \
  void __tsan_atomic##bits##_store(volatile void* at, T value, int) {                   \
    atomic("writes", static_cast<volatile T*>(at), [=](T) { return value; });           \
  }                                                                                     \
  T __tsan_atomic##bits##_exchange(volatile void* at, T value, int) {                   \
    return atomic("exchanges", static_cast<volatile T*>(at), [=](T) { return value; }); \
  }                                                                                     \
  T __tsan_atomic##bits##_fetch_add(volatile void* at, T value, int) {                  \
    return atomic("adds to", static_cast<volatile T*>(at),                              \
                  [=](T was) { return static_cast<T>(was + value); });                  \
  }                                                                                     \
  T __tsan_atomic##bits##_fetch_sub(volatile void* at, T value, int) {                  \
    return atomic("subtracts from", static_cast<volatile T*>(at),                       \
                  [=](T was) { return static_cast<T>(was - value); });                  \
  }                                                                                     \
  T __tsan_atomic##bits##_fetch_or(volatile void* at, T value, int) {                   \
    return atomic("sets bits of", static_cast<volatile T*>(at),                         \
                  [=](T was) { return static_cast<T>(was | value); });                  \
  }                                                                                     \
  T __tsan_atomic##bits##_fetch_and(volatile void* at, T value, int) {                  \
    return atomic("clears bits of", static_cast<volatile T*>(at),                       \
                  [=](T was) { return static_cast<T>(was & value); });                  \
  }

TUTTI_ATOMICS(8, unsigned char)
TUTTI_ATOMICS(32, unsigned int)
TUTTI_ATOMICS(64, unsigned long)

// Accesses that are not atomic lie between two steps.
#define TUTTI_PLAIN(name) \
  void __tsan_##name(void*) {}
#define TUTTI_PLAIN_OF(bytes)        \
  TUTTI_PLAIN(read##bytes)           \
  TUTTI_PLAIN(write##bytes)          \
  TUTTI_PLAIN(unaligned_read##bytes) \
  TUTTI_PLAIN(unaligned_write##bytes)
TUTTI_PLAIN_OF(1)
TUTTI_PLAIN_OF(2)
TUTTI_PLAIN_OF(4)
TUTTI_PLAIN_OF(8)
TUTTI_PLAIN_OF(16)
TUTTI_PLAIN(func_entry)
TUTTI_PLAIN(vptr_read)
void __tsan_read_range(void*, long) {}
void __tsan_write_range(void*, long) {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  std::va_list rest;
  va_start(rest, number);
  auto* const word = va_arg(rest, std::uint32_t*);
  const int operation = va_arg(rest, int);
  const auto value = va_arg(rest, std::uint32_t);
  const timespec* const limit = va_arg(rest, const timespec*);
  void* const unused = va_arg(rest, void*);
  const auto bits = va_arg(rest, std::uint32_t);
  va_end(rest);
  Threads* const threads = number == SYS_futex ? playing(word) : nullptr;
  if (threads == nullptr)
    return __real_syscall(number, word, operation, value, limit, unused, bits);
  if (operation == FUTEX_WAKE_BITSET) {
    threads->wake(word, bits);
  } else {
    threads->sleep(word, value, bits, time_of(limit));
  }
  return 0;
}

int __real_sched_yield();
int __wrap_sched_yield() {
  if (Threads::current() == nullptr) return __real_sched_yield();
  Threads::current()->yield();
  return 0;
}

// There is only one thread of the system, so mutexes that `Threads` does not know are free.
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (Threads* const threads = playing(mutex)) threads->lock(mutex);
  return 0;
}
int __wrap_pthread_mutex_trylock(pthread_mutex_t* mutex) {
  Threads* const threads = playing(mutex);
  return threads == nullptr || threads->try_lock(mutex) ? 0 : EBUSY;
}
int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (Threads* const threads = playing(mutex)) threads->unlock(mutex);
  return 0;
}
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t,
                                  const timespec* limit) {
  Threads* const threads = playing(condition);
  if (threads == nullptr) return ETIMEDOUT;
  return threads->wait(condition, mutex, time_of(limit)) ? 0 : ETIMEDOUT;
}

// std::condition_variable::notify_all
void __wrap__ZNSt18condition_variable10notify_allEv(void* condition) {
  if (Threads* const threads = playing(condition)) threads->wake(condition, ~std::uint32_t{0});
}

// std::chrono::steady_clock::now, whose result travels as a number.
Time __real__ZNSt6chrono3_V212steady_clock3nowEv();
Time __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  Threads* const threads = Threads::current();
  return threads == nullptr ? __real__ZNSt6chrono3_V212steady_clock3nowEv() : threads->now();
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
