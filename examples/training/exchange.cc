#include "training/exchange.h"

#include <algorithm>

namespace training {

Exchange::Exchange(tutti::KVStore& store, const Worker& worker)
    : store_(store),
      store_updates_(store.type().find("async") != std::string::npos),
      optimizer_(worker.optimizer()),
      layers_(worker.layer_count()) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (const Shared& shared : worker.layer(i)) {
      std::vector<tutti::Tensor> values;
      std::vector<tutti::Tensor> gradients;
      for (const nn::Parameter* copy : shared.copies) {
        values.push_back(copy->value);
        gradients.push_back(copy->gradient);
      }
      layers_[i].keys.emplace_back(shared.name);
      layers_[i].values.emplace_back(std::move(values));
      layers_[i].gradients.emplace_back(std::move(gradients));
    }
  }
}

void Exchange::broadcast_weights() {
  if (store_updates_) store_.set_optimizer(optimizer_);
  std::vector<tutti::Pending> pendings;
  for (const Layer& layer : layers_) {
    if (!layer.keys.empty()) {
      pendings.push_back(store_.broadcast(layer.keys, layer.values, /*root_rank=*/0));
    }
  }
  for (const tutti::Pending& pending : pendings) pending.wait();
}

void Exchange::push_gradients(std::size_t layer) {
  Layer& at = layers_[layer];
  at.pending = store_.pushpull(at.keys, at.gradients, store_updates_ ? at.values : at.gradients,
                               {.priority = -static_cast<int>(layer)});
}

void Exchange::wait_gradients(std::size_t layer) {
  layers_[layer].pending.wait();
}

void Exchange::settle_weights() {
  if (!store_updates_) return;
  store_.barrier();  // all have pushed what they push
  for (const Layer& layer : layers_) {
    if (!layer.keys.empty()) store_.pull(layer.keys, layer.values).wait();
  }
}

/// An asynchronous store would update by what is pushed.
void Exchange::sum_by_broadcasts(const std::string& name, std::span<double> numbers) {
  const std::vector<double> own(numbers.begin(), numbers.end());
  std::fill(numbers.begin(), numbers.end(), 0.0);
  for (int root = 0; root < ranks(); ++root) {
    std::vector<double> theirs = own;
    const tutti::Tensor tensor(theirs.data(), {static_cast<std::int64_t>(theirs.size())},
                               tutti::DType::f64);
    store_.broadcast(name + " of " + std::to_string(root), tensor, root).wait();
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += theirs[i];
  }
}

void Exchange::sum(const std::string& name, std::span<double> numbers) {
  if (store_updates_) return sum_by_broadcasts(name, numbers);
  const tutti::Tensor tensor(numbers.data(), {static_cast<std::int64_t>(numbers.size())},
                             tutti::DType::f64);
  // Some store types need a key to be initialised before it is pushed.
  if (known_.insert(name).second) {
    std::vector<double> zeros(numbers.size());
    store_
        .broadcast(name, tutti::Tensor(zeros.data(), tensor.shape(), tutti::DType::f64),
                   /*root_rank=*/0)
        .wait();
  }
  store_.pushpull(name, {tensor}, {tensor}).wait();
  other_bytes_ += tensor.bytes();
}

}  // namespace training
