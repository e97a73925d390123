#pragma once
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "training/worker.h"
#include "tutti/kvstore.h"

namespace training {

/// All communication of a worker with the others, over a store.
class Exchange {
 public:
  /// With a GPU, the store gets weights and gradients that lie there. They are copied there and
  /// back, because the layers compute on the CPU.
  Exchange(tutti::KVStore& store, const Worker& worker, std::optional<int> gpu);

  /// Gives rank 0's weights to every device of every rank. Collective, blocks.
  void broadcast_weights();
  /// Starts to sum a layer's gradients over all devices and ranks. In an asynchronous store it sums
  /// over the devices, and the store updates the weights by the sum. A layer that is nearer to the
  /// input is needed sooner in the next step, so its priority is higher.
  void push_gradients(std::size_t layer);
  /// Blocks until the gradients of that layer, which were pushed before, are summed, or the weights
  /// are updated.
  void wait_gradients(std::size_t layer);
  /// In an asynchronous store: blocks until all ranks have called it, then takes its weights, so
  /// that all ranks have the same.
  void settle_weights();
  /// Sums lists of equal length element by element over all ranks. Collective, blocks. `name` must
  /// differ for lists of different purpose or length.
  void sum(const std::string& name, std::span<double> numbers);

  /// Whether the store is asynchronous, and updates the weights.
  bool store_updates() const { return store_updates_; }
  int rank() const { return store_.rank(); }
  int ranks() const { return store_.num_workers(); }
  /// The bytes of gradients that were summed since the start. Each device's copy counts once.
  std::size_t gradient_bytes() const { return store_.counters().bytes_reduced - other_bytes_; }

 private:
  struct Layer {
    std::vector<tutti::Key> keys;
    std::vector<tutti::Values> values, gradients;  ///< by key, then by device
    /// The tensors that the store gets: the same ones, or others on the GPU.
    std::vector<tutti::Values> stored_values, stored_gradients;
    tutti::Pending pending;
  };

  tutti::Tensor place_for(const tutti::Tensor& tensor);
  tutti::Values places_for(const std::vector<tutti::Tensor>& tensors);
  void sum_by_broadcasts(const std::string& name, std::span<double> numbers);

  tutti::KVStore& store_;
  const std::optional<int> gpu_;
  const bool store_updates_;
  const tutti::Optimizer optimizer_;
  std::vector<Layer> layers_;
  std::set<std::string> known_;  ///< keys of `sum`
  std::size_t other_bytes_ = 0;  ///< bytes reduced that are no gradients
};

}  // namespace training
