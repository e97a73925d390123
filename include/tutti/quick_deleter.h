#pragma once
#include "tutti/export.h"

namespace tutti {

/// A fast deleter for a `Tensor`'s memory. Use it if the owner of the memory, such as a memory pool
/// or a garbage collector, only needs to learn that the memory is free.
///
/// A `dist_sync_mpi` store runs all other deleters on its communication thread. To wake that thread
/// costs some tens of microseconds for each call. The store runs a QuickDeleter wherever the call
/// ends: on any thread, including the program's own, and while the store holds locks.
///
/// So `note` should only note the context, for example on a list. It must not:
/// - block,
/// - take a lock that any thread holds for more than a moment,
/// - call tutti, or
/// - throw.
struct TUTTI_EXPORT QuickDeleter {
  void (*note)(void* context) noexcept;
  void* context;  ///< the owner's name for the memory, such as a pointer

  void operator()(void* /*memory*/) const noexcept { note(context); }
};

}  // namespace tutti
