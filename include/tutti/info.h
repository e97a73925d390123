#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/export.h"
#include "tutti/options.h"

namespace tutti {

struct Fact {
  std::string name;
  std::string value;
};

/// How this library was built and what it found on this machine: version, compiler, "build type"
/// (meson's word: "release", "debugoptimized", ...), build options, parts, instruction set, "host",
/// "processor" and "usable processors". For people, bug reports and records of measurements. Does
/// not initialise MPI.
TUTTI_EXPORT std::vector<Fact> build_info();

/// The CUDA driver, the GPUs with their UUIDs, whether tutti's kernels run on them, and NCCL with
/// its version and path; or why there is none. For people. Initialises CUDA, and makes a context on
/// each GPU for a moment.
TUTTI_EXPORT std::vector<Fact> gpu_info();

/// A size, limit or policy that decides how fast a store is, and where its value comes from.
struct Choice {
  std::string name;
  std::string value;
  /// "default"; the name of the environment variable that set it; "program": its Options set it;
  /// "job": it follows from the number and placement of ranks; "machine": from its processors and
  /// caches; "always": the library fixes it.
  std::string origin;
};

/// The most bytes of buffers that a `dist_sync_mpi` store holds on one rank, in a job with
/// `ranks_per_node` ranks on each of `nodes` nodes. Not counted: tensors from `allocate`, and 1.25
/// KiB for each key that is in flight at once. A program that submits lists pays these 1.25 KiB
/// once for each class of list lengths that it uses: 1 key, 2 and 3, 4 to 7, 8 to 15 and so on.
/// Throws `invalid_argument` unless both numbers are 1 to 65536 and their product is at most 2^20.
TUTTI_EXPORT std::uint64_t most_buffer_bytes(const Options& options, int ranks_per_node,
                                             int nodes = 1);

/// Each variable that sets an option, and the option's value in the form that the variable takes:
/// {"TUTTI_PART_BYTES", "4M"}.
TUTTI_EXPORT std::vector<Fact> describe(const Options& options);

}  // namespace tutti
