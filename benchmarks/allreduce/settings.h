#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

namespace tutti::bench {

/// `sendrecv`: each rank sends to the next one, and receives from the one before.
enum class Operation : std::uint8_t {
  allreduce,
  broadcast,
  reduce_scatter,
  allgather,
  all_to_all,
  sendrecv
};
std::string_view name(Operation operation);
/// True: the operation reduces; false: it only copies.
bool reduces(Operation operation);
/// True: the tensor consists of a share for each rank, all of the same size.
bool has_shares(Operation operation);

/// Where the result goes: not over the input, over it, or one after the other.
enum class Places : std::uint8_t { out, in, both };
std::string_view name(Places places);

/// One way to move a tensor.
struct Case {
  Operation op = Operation::allreduce;
  ReduceOp redop = ReduceOp::sum;  ///< only if `op` reduces
  bool in_place = false;
};

/// The settings of the command line.
struct Settings {
  std::vector<std::string> impls = {"tutti", "mpi"};
  std::vector<Operation> ops = {Operation::allreduce};
  std::vector<ReduceOp> redops = {ReduceOp::sum};
  Places places = Places::out;
  DType dtype = DType::f32;
  std::size_t min_bytes = 4;
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t factor = 4;
  std::vector<std::size_t> sizes;  ///< in bytes; if given, they replace the three fields above
  bool shared = false;             ///< additional rows for tensors from KVStore::allocate
  int iterations = 0;              ///< 0: as many as `seconds` allow, `least` or more
  int least = 5;                   ///< turns between two readings of the clock
  int warmup = 5;                  ///< turns before the measured ones
  double rest = 0;                 ///< milliseconds without traffic before each turn
  double seconds = 2.0;            ///< time for one size, all implementations and checks together
  bool check = true;
  std::string json;      ///< file for the rows; empty: none
  std::string csv;       ///< the same
  double min_busbw = 0;  ///< GB/s; 0: any
  double link_gbps = 0;  ///< the payload that a host's link carries each way; 0: not known
  std::string store = "dist_sync_mpi";
  std::string wire = "none";  ///< the format in which tutti's f32 tensors travel
  int root = 0;               ///< of a broadcast
  std::optional<int> gpu;     ///< tutti's tensors are on this device

  bool runs(std::string_view impl) const;
  /// All ways to run that operation. A broadcast is always in place, a sendrecv never.
  std::vector<Case> cases(Operation op) const;
  /// Elements of each size: of `sizes`, or from min_bytes to max_bytes, growing by `factor`. Where
  /// the operation has shares, the number is a multiple of the ranks, at least one a rank, because
  /// MPI has no uneven shares there.
  std::vector<std::size_t> counts(Operation op, int ranks) const;
};

/// Fills `settings` from the command line of a run with this many ranks. If the line is wrong or
/// asks for help, prints that (only on the rank that `speaks`) and returns the exit status.
std::optional<int> parse(int argc, const char* const* argv, int ranks, bool speaks,
                         Settings& settings);

}  // namespace tutti::bench
