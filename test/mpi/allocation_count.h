#pragma once
#include <cstdint>

/// Counts the memory that this process requests from malloc and related functions, on any thread,
/// including tutti and MPI. A program that links this must not be built with a sanitizer, because
/// the sanitizer replaces malloc itself.
namespace allocation_count {

/// Since the start of the process.
std::uint64_t total();

/// As long as one lives, the call stack of each allocation is written to stderr. This helps to find
/// the code that allocates.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
};

}  // namespace allocation_count
