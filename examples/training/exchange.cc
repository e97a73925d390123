#include "training/exchange.h"

namespace training {

Exchange::Exchange(tutti::KVStore& store, const Worker& worker)
    : store_(store), layers_(worker.layer_count()) {
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
  at.pending =
      store_.pushpull(at.keys, at.gradients, at.gradients, {.priority = -static_cast<int>(layer)});
}

void Exchange::wait_gradients(std::size_t layer) {
  layers_[layer].pending.wait();
}

void Exchange::sum(const std::string& name, std::span<double> numbers) {
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
