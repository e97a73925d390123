#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/layer.h"
#include "nn/softmax_loss.h"

namespace nn {

/// A chain of layers that classifies, with its parameters and activations, on one device.
class Network {
 public:
  Network(const Extent& input, tutti::Device device);

  /// Appends a layer that reads the last one's output.
  template <typename L, typename... Args>
  void add(const std::string& name, Args&&... args) {
    append(std::make_unique<L>(context_, name, output(), std::forward<Args>(args)...));
  }

  /// One sample's extents.
  const Extent& input() const { return input_; }
  Extent output() const { return layers_.empty() ? input_ : layers_.back()->output(); }
  std::size_t layer_count() const { return layers_.size(); }
  /// One layer's, or all layers' in order.
  std::vector<Parameter*> parameters(std::size_t layer) { return layers_[layer]->parameters(); }
  std::vector<Parameter*> parameters();

  /// Fills the parameters from the seed, with the same bits on every machine.
  void initialise(std::uint64_t seed);

  /// The next batch's samples are to be written here before `forward`; at least one.
  std::span<float> resize(std::int64_t batch);
  /// Runs all layers, and the loss.
  Score forward(std::span<const std::uint8_t> labels, Mode mode);
  /// One layer. To be called for the last layer first, and for every layer, after `forward` in
  /// training mode. Then the layer's gradients are ready.
  void backward(std::size_t layer);

 private:
  void append(std::unique_ptr<Layer> layer);
  Activations around(std::size_t layer);

  Context context_;
  Extent input_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::unique_ptr<SoftmaxLoss> loss_;
  std::int64_t batch_ = 0;
  /// The input, and what each layer makes of it; and their gradients.
  std::vector<std::vector<float>> activations_, gradients_;
};

}  // namespace nn
