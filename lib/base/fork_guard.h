#pragma once
#include <atomic>

namespace tutti::base {

/// Tells whether this process is a forked child of the one that made the guard. The store's threads
/// do not exist in a child. One pthread_atfork handler in each process counts the forks. A check is
/// one load.
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
