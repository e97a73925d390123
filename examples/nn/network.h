#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/layer.h"
#include "nn/softmax_loss.h"

namespace nn {

/// A network of layers that classifies, with its parameters and activations, on one device. Each
/// layer reads the output of an earlier one, mostly of the one just before.
class Network {
 public:
  Network(const Extent& input, tutti::Device device);

  /// A layer's output, or the network's input: several later layers may read it.
  using Tap = std::size_t;
  /// The last layer's output.
  Tap tap() const { return nodes_.size(); }

  /// Appends a layer that reads the last one's output.
  template <typename L, typename... Args>
  void add(const std::string& name, Args&&... args) {
    add_from<L>(tap(), name, std::forward<Args>(args)...);
  }
  /// Appends a layer that reads the output `from`.
  template <typename L, typename... Args>
  void add_from(Tap from, const std::string& name, Args&&... args) {
    append({std::make_unique<L>(context_, name, extent(from), std::forward<Args>(args)...), from});
  }
  /// Appends a layer that adds the output `other` to the last one's. Throws `invalid_argument` if
  /// they differ in extent.
  void add_sum(Tap other, const std::string& name);

  /// One sample's extents.
  const Extent& input() const { return input_; }
  Extent output() const { return extent(tap()); }
  std::size_t layer_count() const { return nodes_.size(); }
  /// The parameters of one layer, or of all layers in order.
  std::vector<Parameter*> parameters(std::size_t layer) {
    return nodes_[layer].layer->parameters();
  }
  std::vector<Parameter*> parameters();

  /// The bytes that `resize` allocates for batches of this many samples.
  std::size_t activation_bytes(std::int64_t batch) const;

  /// Fills the parameters from the seed, with the same bits on every machine.
  void initialise(std::uint64_t seed);

  /// Prepares for a batch of at least one sample. Write the samples to the result before `forward`.
  std::span<float> resize(std::int64_t batch);
  /// Runs all layers and computes the loss.
  Score forward(std::span<const std::uint8_t> labels, Mode mode);
  /// Runs one layer backwards. Call it for every layer, the last one first, after `forward` in
  /// training mode. Afterwards the layer's gradients are ready.
  void backward(std::size_t layer);

 private:
  struct Node {
    std::unique_ptr<Layer> layer;
    Tap from;
    std::optional<Tap> other = {};  ///< the second input
  };
  Extent extent(Tap tap) const { return tap == 0 ? input_ : nodes_[tap - 1].layer->output(); }
  void append(Node node);
  Activations around(const Node& node);
  /// Whether a later layer also reads there, and so has already written its gradient.
  bool read_later(Tap tap, std::size_t layer) const { return last_reader_[tap] > layer; }

  Context context_;
  Extent input_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> last_reader_;  ///< by tap: the index of a layer
  std::unique_ptr<SoftmaxLoss> loss_;
  std::int64_t batch_ = 0;
  /// The network's input and each layer's output, and their gradients.
  std::vector<std::vector<float>> activations_, gradients_;
  std::array<std::vector<float>, 2> shares_;  ///< for gradients to which several layers add
};

}  // namespace nn
