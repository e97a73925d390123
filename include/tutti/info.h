#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/export.h"
#include "tutti/options.h"

namespace tutti {

/// A fact for people to read.
struct Fact {
  std::string name;
  std::string value;
};

/// Tells how this library was built and what it found on this machine: version, compiler, "build
/// type" (meson's word: "release", "debugoptimized", ...), build options, optional parts,
/// instruction set, "host", "processor", "usable processors" and the MPI library. For people, bug
/// reports and records of measurements. Does not initialise MPI.
TUTTI_EXPORT std::vector<Fact> build_info();

/// Tells about the CUDA driver, the GPUs with their UUIDs, whether tutti's kernels run on each GPU,
/// and NCCL with its version and path. If one of these is missing, its fact says why. For people.
/// Initialises CUDA, and creates a context on each GPU for a moment.
TUTTI_EXPORT std::vector<Fact> gpu_info();

/// A size, limit or policy that affects the speed of a store, and where its value comes from.
struct Choice {
  std::string name;
  std::string value;
  /// - the name of an environment variable: this variable set the value;
  /// - "program": the program's Options set it;
  /// - "job": it follows from the number and placement of the ranks;
  /// - "machine": it follows from the machine's processors and caches;
  /// - "always": the library fixes it;
  /// - "default": nothing has set it.
  ///
  /// Details may follow "job", as in "job: 1 node".
  std::string origin;
};

/// Returns the most bytes of buffers that a `dist_sync_mpi` store holds on one rank, in a job with
/// `ranks_per_node` ranks on each of `nodes` nodes. Throws `invalid_argument` unless both numbers
/// are 1 to 65536 and their product is at most 2^20.
///
/// It does not count:
/// - tensors from `allocate`;
/// - 1.4375 KiB for each key that is in flight at once. The store keeps this memory for later calls
///   with lists of a similar length. There are classes of lengths: 1 key, 2 and 3, 4 to 7, 8 to 15
///   and so on. A list takes as much as the longest list of its class, and a program that uses
///   several classes needs the memory for each of them.
TUTTI_EXPORT std::uint64_t most_buffer_bytes(const Options& options, int ranks_per_node,
                                             int nodes = 1);

/// Lists the environment variables that set options, each with the option's value in the form that
/// the variable takes: {"TUTTI_PART_BYTES", "4M"}.
TUTTI_EXPORT std::vector<Fact> describe(const Options& options);

}  // namespace tutti
