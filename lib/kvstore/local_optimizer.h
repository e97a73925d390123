#pragma once
#include <optional>
#include <span>
#include <string>

#include "kvstore/local_memory.h"
#include "optimizer/updater.h"
#include "tutti/reduce_op.h"

namespace tutti {

/// The optimizer, if there is one, of a store that keeps its values in this process. Only one
/// thread may use it at a time. Throws the same errors as the methods of KVStore.
class LocalOptimizer {
 public:
  bool is_set() const { return updater_.has_value(); }
  void set(const Optimizer& optimizer);
  void save(const std::string& path, bool with_optimizer) const;
  void load(const std::string& path);

  /// Throws `invalid_argument` if `update` cannot be called for tensors like this one.
  void check(const Key& key, const Tensor& like) const;
  /// Notes that the key has a new value, which replaces an earlier one.
  void take_value(const Key& key, const Tensor& value);
  /// Reduces the devices' gradients, and updates the value with the result. The rule runs on the
  /// host, even if the value is in other memory.
  void update(const Key& key, std::span<const Tensor> gradients, ReduceOp op, const Tensor& value,
              LocalMemory& memory);

 private:
  std::optional<optimizer::Updater> updater_;
};

}  // namespace tutti
