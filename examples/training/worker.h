#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/images.h"
#include "nn/network.h"
#include "tutti/optimizer.h"

namespace training {

/// One device of a worker: a copy of the network and this device's part of the batch.
struct Replica {
  nn::Network network;
  std::vector<std::uint8_t> labels;          ///< of the part, which may be empty
  std::vector<std::vector<float>> velocity;  ///< by parameter
};

/// Cuts a batch among devices in proportion to their work loads and writes each device's samples
/// and labels where its network reads them.
void split_and_load(const dataset::Images& images, std::span<const std::uint32_t> batch,
                    std::span<const int> work_loads, std::span<Replica> devices);

/// One parameter on all devices of a worker.
struct Shared {
  std::string name;
  std::vector<nn::Parameter*> copies;  ///< by device
};

/// The computing of one process: the gradients on its devices, and the update of their weights. It
/// knows nothing of other processes.
class Worker {
 public:
  struct Plan {
    std::string_view network;
    nn::Extent image;
    std::int64_t classes = 10;
    std::vector<int> work_loads = {1};  ///< one a device
    float lr = 0;
    float momentum = 0;
  };

  /// All devices begin with the same weights, which depend on the seed only.
  Worker(const Plan& plan, std::uint64_t seed);

  std::size_t layer_count() const { return layers_.size(); }
  /// The parameters of a layer. Empty for a layer without any.
  const std::vector<Shared>& layer(std::size_t index) const { return layers_[index]; }
  std::size_t weight_count() const;

  /// Runs forward and backward over a batch, which may be empty. For each layer that has
  /// parameters, the last one first, calls `ready` once its gradients are there on all devices.
  nn::Score compute(const dataset::Images& images, std::span<const std::uint32_t> batch,
                    const std::function<void(std::size_t layer)>& ready);
  /// Divides a layer's gradients by a number of samples.
  void average(std::size_t layer, std::size_t samples);
  /// The rule of `update`, for a store that updates.
  tutti::Optimizer optimizer() const;
  /// Updates a layer's weights. The gradients must be sums over a global batch of this many
  /// samples.
  void update(std::size_t layer, std::size_t global_batch);
  /// Runs only the forward pass, on the first device, with these images as one batch.
  nn::Score evaluate(const dataset::Images& images, std::size_t begin, std::size_t end);

  /// A hash of all weights. Throws `internal` if the devices' weights differ.
  std::string weights_sha256() const;

 private:
  void backward(std::size_t layer);

  Plan plan_;
  std::vector<Replica> devices_;
  std::vector<std::vector<Shared>> layers_;
};

}  // namespace training
