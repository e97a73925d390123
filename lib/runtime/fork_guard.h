#pragma once
#include <atomic>

namespace tutti::runtime {

/// Knows whether this process is a fork()ed child of the one that made the guard: the store's
/// threads do not exist there. One handler a process counts forks (pthread_atfork); a check is one
/// load.
class ForkGuard {
 public:
  ForkGuard();
  bool is_in_child() const;
  /// Throws `unsupported` in a child.
  void check() const;

 private:
  unsigned born_;
};

}  // namespace tutti::runtime
