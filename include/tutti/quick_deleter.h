#pragma once
#include "tutti/export.h"

namespace tutti {

/// A deleter for a `Tensor`'s memory whose owner only has to learn that the memory is free, such as
/// a pool, or a language with a garbage collector. A `dist_sync_mpi` store leaves other deleters to
/// its communication thread, and to wake that costs some tens of microseconds a call. This one it
/// calls wherever a call ends: on any thread, also one of the program's, and while it holds locks.
///
/// So `note` only notes the context, for instance on a list. It must not block, nor take a lock
/// that anybody holds for more than a moment, nor call tutti, nor throw.
struct TUTTI_EXPORT QuickDeleter {
  void (*note)(void* context) noexcept;
  void* context;  ///< whatever the owner knows the memory by

  void operator()(void* /*memory*/) const noexcept { note(context); }
};

}  // namespace tutti
