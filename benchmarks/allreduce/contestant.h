#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "benchmarks/allreduce/settings.h"
#include "tutti/kvstore.h"

namespace tutti::bench {

/// The input and the result of one size. In place both are the same memory; a reduce_scatter's
/// result and an allgather's input is a shard, and in place this rank's shard of the other.
struct Buffers {
  void* in = nullptr;
  void* out = nullptr;
  std::size_t in_count = 0;
  std::size_t out_count = 0;
};

/// One implementation that is measured.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual std::string impl() const = 0;
  virtual std::string version() const = 0;
  virtual bool shared() const { return false; }

  /// Called before a new size or case. `own` is this rank's private memory, the same for all
  /// contestants. Returns the buffers that `run` will use.
  virtual Buffers prepare(const Case& now, const Buffers& own) = 0;
  /// Called outside the time, when the buffers are filled and before they are checked: for one
  /// whose tensors are not in these buffers.
  virtual void take_input() {}
  virtual void give_result() {}
  /// The measured part. Blocks until this rank has its result.
  virtual void run() = 0;
};

/// How tutti is measured.
enum class Measured {
  calls,      ///< the tensors are the program's own, on the GPU that the settings name, if any
  shared,     ///< they come from `KVStore::allocate`
  persistent  ///< they are the program's own, and an allreduce is bound once for each size
};
std::unique_ptr<Contestant> make_tutti(std::string impl, std::shared_ptr<KVStore> store,
                                       const Settings& settings, Measured measured);
std::unique_ptr<Contestant> make_mpi(const Settings& settings);

}  // namespace tutti::bench
