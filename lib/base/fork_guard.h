#pragma once
#include <atomic>

namespace tutti::base {

/// Tells whether this process is a forked child of the one that made the guard: the store's threads
/// do not exist there. One pthread_atfork handler a process counts the forks; a check is one load.
class ForkGuard {
 public:
  ForkGuard();
  bool is_in_child() const;
  /// Throws `unsupported` in a child.
  void check() const;

 private:
  unsigned born_;
};

}  // namespace tutti::base
