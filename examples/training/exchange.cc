#include "training/exchange.h"

#include <algorithm>

#include "tutti/copy.h"

namespace training {

namespace {

/// Tensors that are the same are not copied.
void copy_all(const std::vector<tutti::Values>& from, const std::vector<tutti::Values>& to) {
  for (std::size_t key = 0; key < from.size(); ++key) {
    for (std::size_t i = 0; i < from[key].size(); ++i) tutti::copy(from[key][i], to[key][i]);
  }
}

}  // namespace

Exchange::Exchange(tutti::KVStore& store, const Worker& worker, std::optional<int> gpu)
    : store_(store),
      gpu_(gpu),
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
      layers_[i].stored_values.push_back(places_for(values));
      layers_[i].stored_gradients.push_back(places_for(gradients));
      layers_[i].values.emplace_back(std::move(values));
      layers_[i].gradients.emplace_back(std::move(gradients));
    }
  }
}

tutti::Tensor Exchange::place_for(const tutti::Tensor& tensor) {
  if (!gpu_) return tensor;
  return store_.allocate(tensor.shape(), tensor.dtype(), {tutti::Device::Kind::gpu, *gpu_});
}

tutti::Values Exchange::places_for(const std::vector<tutti::Tensor>& tensors) {
  std::vector<tutti::Tensor> places;
  places.reserve(tensors.size());
  for (const tutti::Tensor& tensor : tensors) places.push_back(place_for(tensor));
  return places;
}

void Exchange::broadcast_weights() {
  if (store_updates_) store_.set_optimizer(optimizer_);
  std::vector<tutti::Pending> pendings;
  for (const Layer& layer : layers_) {
    if (layer.keys.empty()) continue;
    copy_all(layer.values, layer.stored_values);
    pendings.push_back(store_.broadcast(layer.keys, layer.stored_values, /*root_rank=*/0));
  }
  for (const tutti::Pending& pending : pendings) pending.wait();
  for (const Layer& layer : layers_) copy_all(layer.stored_values, layer.values);
}

void Exchange::push_gradients(std::size_t layer) {
  Layer& at = layers_[layer];
  copy_all(at.gradients, at.stored_gradients);
  at.pending = store_.pushpull(at.keys, at.stored_gradients,
                               store_updates_ ? at.stored_values : at.stored_gradients,
                               {.priority = -static_cast<int>(layer)});
}

void Exchange::wait_gradients(std::size_t layer) {
  const Layer& at = layers_[layer];
  at.pending.wait();
  if (store_updates_) return copy_all(at.stored_values, at.values);
  copy_all(at.stored_gradients, at.gradients);
}

void Exchange::settle_weights() {
  if (!store_updates_) return;
  store_.barrier();  // now all workers have pushed everything
  for (const Layer& layer : layers_) {
    if (layer.keys.empty()) continue;
    store_.pull(layer.keys, layer.stored_values).wait();
    copy_all(layer.stored_values, layer.values);
  }
}

/// A sum by pushes would not do: an asynchronous store would update its value by them.
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
  const tutti::Tensor stored = place_for(tensor);
  // Some store types need a key to be initialised before it is pushed.
  if (known_.insert(name).second) {
    std::vector<double> zeros(numbers.size());
    const tutti::Tensor first(zeros.data(), tensor.shape(), tutti::DType::f64);
    const tutti::Tensor stored_first = place_for(first);
    tutti::copy(first, stored_first);
    store_.broadcast(name, stored_first, /*root_rank=*/0).wait();
  }
  tutti::copy(tensor, stored);
  store_.pushpull(name, {stored}, {stored}).wait();
  tutti::copy(stored, tensor);
  other_bytes_ += tensor.bytes();
}

}  // namespace training
