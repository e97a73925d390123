#pragma once
#include <atomic>
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/fork_guard.h"
#include "base/spares.h"
#include "kvstore/backend.h"
#include "kvstore/checks.h"
#include "kvstore/overlap.h"

namespace tutti {

/// Checks a store's calls before the backend gets them, and keeps the state that it needs for that.
/// Bound calls use it even after the store is destroyed. Thread-safe.
class FrontDesk {
 public:
  bool is_in_child() const { return fork_guard_.is_in_child(); }
  /// Throws `unsupported` in a forked child, and `aborted` if the store is closed. Call this before
  /// anything else: in a forked child a mutex that another thread held at the fork is never
  /// released.
  void require_usable(std::string_view method) const;

  /// Checks the call, copies inputs where outputs overlap them, and passes the call to the backend.
  Pending submit(Backend& backend, MethodCall call);
  /// Checks a pushpull that is submitted later. Returns whether an input of it must be copied at
  /// each submission, because an output overlaps it.
  bool check_for_later(const Backend& backend, const MethodCall& call);
  /// Passes on a call that `check_for_later` has checked, and that needs no copies.
  Pending submit_checked(Backend& backend, const MethodCall& call);

  /// Whether the store has moved tensors, and not objects alone.
  bool has_moved_tensors() const { return has_moved_tensors_; }
  /// From now on `require_usable` throws.
  void close();

 private:
  /// Memory for checking one call, kept for the next.
  struct Workspace {
    std::vector<std::size_t> order;
    OverlapMemory overlap;
    std::vector<std::ptrdiff_t> places;
    std::vector<Values> ins;  ///< replace the caller's where they differ
  };

  /// Borrows a workspace for one call. Afterwards the workspace holds none of the caller's tensors.
  class Use {
   public:
    explicit Use(base::Spares<Workspace>& spares) : workspace_(spares) {}
    ~Use() { workspace_->ins.clear(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    Workspace* operator->() const { return &*workspace_; }

   private:
    base::Borrowed<Workspace> workspace_;
  };

  void check(const MethodCall& call, const Traits& traits, const Use& workspace);

  const base::ForkGuard fork_guard_;
  KeyKind key_kind_;
  std::atomic<bool> has_moved_tensors_{false};
  std::atomic<bool> closed_{false};
  base::Spares<Workspace> workspaces_;
};

}  // namespace tutti
