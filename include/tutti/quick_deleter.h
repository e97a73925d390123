#pragma once
#include "tutti/export.h"

namespace tutti {

/// A fast deleter for a `Tensor`'s memory. Use it if the owner of the memory only needs to learn
/// that the memory is free. Examples are a pool and a language with a garbage collector.
///
/// A `dist_sync_mpi` store runs all other deleters on its communication thread. To wake that thread
/// costs some tens of microseconds for each call. The store runs a QuickDeleter wherever the call
/// ends: on any thread, also on one of the program's, and while the store holds locks.
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
