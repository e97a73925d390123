#pragma once
#include <cstdint>

/// Counts what this process asks malloc and its kin for, on any thread, tutti and MPI included. The
/// program that links it must not be built with a sanitizer, which replaces malloc itself.
namespace allocation_count {

/// Since the start of the process.
std::uint64_t total();

/// While one lives, the call stack of each allocation is written to stderr; for whoever looks for
/// what allocates.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
};

}  // namespace allocation_count
