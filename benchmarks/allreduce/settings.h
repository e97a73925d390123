#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/tensor.h"

namespace tutti::bench {

enum class Operation : std::uint8_t { allreduce, broadcast, reduce_scatter, allgather };
std::string_view name(Operation operation);
/// Sums, rather than copies.
bool reduces(Operation operation);
/// One side is a shard, of as many elements on each rank.
bool is_half(Operation operation);

/// What the command line asks for.
struct Settings {
  std::vector<std::string> impls = {"tutti", "mpi"};
  Operation op = Operation::allreduce;
  DType dtype = DType::f32;
  std::size_t min_bytes = 4;
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t factor = 4;
  std::vector<std::size_t> sizes;  ///< in bytes; when there are any, the three above do not count
  bool in_place = false;
  bool shared = false;   ///< rows of their own for tensors from KVStore::allocate
  int iterations = 0;    ///< 0: as many as `seconds` allow, `least` or more
  int least = 5;         ///< turns between two looks at the clock
  int warmup = 5;        ///< turns before the measured ones
  double rest = 0;       ///< milliseconds before each turn in which nothing is sent
  double seconds = 2.0;  ///< time for one size, all implementations and checks together
  bool check = true;
  std::string json;  ///< file for the rows; empty: none
  std::string store = "dist_sync_mpi";
  std::string wire = "none";  ///< what tutti's f32 tensors travel as
  int root = 0;               ///< of a broadcast

  bool runs(std::string_view impl) const;
  /// The sizes, or those from min_bytes to max_bytes, growing by `factor`; whole elements. With one
  /// of allreduce's halves as many for each rank, one at least: MPI has no other shards.
  std::vector<std::size_t> counts(int ranks) const;
};

/// Fills `settings` from the command line of a run with so many ranks. When the line is wrong or
/// asks for help, prints that (only the rank that `speaks`) and returns the exit status instead.
std::optional<int> parse(int argc, const char* const* argv, int ranks, bool speaks,
                         Settings& settings);

}  // namespace tutti::bench
