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
/// True: the operation sums; false: it only copies.
bool reduces(Operation operation);
/// True: the input or the output is a shard, of the same size on each rank.
bool is_half(Operation operation);

/// The settings of the command line.
struct Settings {
  std::vector<std::string> impls = {"tutti", "mpi"};
  Operation op = Operation::allreduce;
  DType dtype = DType::f32;
  std::size_t min_bytes = 4;
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t factor = 4;
  std::vector<std::size_t> sizes;  ///< in bytes; if given, they replace the three fields above
  bool in_place = false;
  bool shared = false;   ///< additional rows for tensors from KVStore::allocate
  int iterations = 0;    ///< 0: as many as `seconds` allow, `least` or more
  int least = 5;         ///< turns between two readings of the clock
  int warmup = 5;        ///< turns before the measured ones
  double rest = 0;       ///< milliseconds without traffic before each turn
  double seconds = 2.0;  ///< time for one size, all implementations and checks together
  bool check = true;
  std::string json;  ///< file for the rows; empty: none
  std::string store = "dist_sync_mpi";
  std::string wire = "none";  ///< the format in which tutti's f32 tensors travel
  int root = 0;               ///< of a broadcast
  std::optional<int> gpu;     ///< tutti's tensors are on this device

  bool runs(std::string_view impl) const;
  /// Elements of each size: of `sizes`, or from min_bytes to max_bytes, growing by `factor`. For
  /// the halves of an allreduce the number is a multiple of the ranks, at least one a rank, for MPI
  /// has no uneven shards there.
  std::vector<std::size_t> counts(int ranks) const;
};

/// Fills `settings` from the command line of a run with this many ranks. If the line is wrong or
/// asks for help, prints that (only on the rank that `speaks`) and returns the exit status.
std::optional<int> parse(int argc, const char* const* argv, int ranks, bool speaks,
                         Settings& settings);

}  // namespace tutti::bench
