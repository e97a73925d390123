#include "kvstore/local_optimizer.h"

#include "base/sealed_file.h"
#include "tutti/error.h"

namespace tutti {

void LocalOptimizer::set(const Optimizer& optimizer) {
  if (updater_) {
    updater_->set(optimizer);
  } else {
    updater_.emplace(optimizer);
  }
}

void LocalOptimizer::save(const std::string& path, bool with_optimizer) const {
  if (!updater_) {
    throw Error(ErrorCode::invalid_argument,
                "save_optimizer_states: the store has no optimizer; call set_optimizer first");
  }
  base::write_sealed(path, updater_->save(with_optimizer));
}

void LocalOptimizer::load(const std::string& path) {
  const std::vector<std::uint8_t> bytes = base::read_sealed(path);
  if (updater_) {
    updater_->load(bytes);
  } else {
    updater_.emplace(optimizer::Updater::loaded(bytes));
  }
}

void LocalOptimizer::check(const Key& key, const Tensor& like) const {
  if (updater_) updater_->check(key, like);
}

void LocalOptimizer::take_value(const Key& key, const Tensor& value) {
  if (updater_) updater_->take_value(key, value);
}

void LocalOptimizer::update(const Key& key, std::span<const Tensor> gradients, ReduceOp op,
                            const Tensor& value, LocalMemory& memory) {
  const Tensor merged = memory.merged_on_host(gradients, op);
  const Tensor updated = memory.on_host(value);
  updater_->update(key, merged, updated);
  memory.put_back(updated, value);
}

}  // namespace tutti
