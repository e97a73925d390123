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

/// What this library is made of and what it found on this machine: version, compiler, "build type"
/// (meson's word: "release", "debugoptimized", ...), build options, parts, instruction set. For
/// people, bug reports and records of measurements; initialises nothing.
TUTTI_EXPORT std::vector<Fact> build_info();

/// One thing that a store works with and that decides how fast it is.
struct Choice {
  std::string name;
  std::string value;
  /// "default"; the environment variable that sets it; "program", by its Options; "job", from how
  /// many ranks are where; "machine", from what it is or has.
  std::string origin;
};

/// The most bytes of buffers that a `dist_sync_mpi` store holds on one rank, with so many ranks on
/// each node. On top of that come what `allocate` gives and, for each key that is in flight at
/// once, 1.25 KiB: once for keys alone in their calls, once for lists of 2 and 3 keys, of 4 to 7,
/// of 8 to 15 and so on, where a program uses them. Both numbers are 1 to 65536 and make a job of
/// 2^20 ranks at most, else `invalid_argument`.
TUTTI_EXPORT std::uint64_t most_buffer_bytes(const Options& options, int ranks_per_node,
                                             int nodes = 1);

/// Each variable that sets an option, and the option's value as the variable would say it:
/// {"TUTTI_PART_BYTES", "4M"}.
TUTTI_EXPORT std::vector<Fact> describe(const Options& options);

}  // namespace tutti
