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

/// Layers that classify, with their parameters and activations, on one device. Each reads what one
/// before it gave, mostly the one just before.
class Network {
 public:
  Network(const Extent& input, tutti::Device device);

  /// What a layer gives, or the network's input: a place that several later layers may read.
  using Tap = std::size_t;
  /// The last layer's.
  Tap tap() const { return nodes_.size(); }

  /// Appends a layer that reads the last one's output.
  template <typename L, typename... Args>
  void add(const std::string& name, Args&&... args) {
    add_from<L>(tap(), name, std::forward<Args>(args)...);
  }
  /// Appends a layer that reads there instead.
  template <typename L, typename... Args>
  void add_from(Tap from, const std::string& name, Args&&... args) {
    append({std::make_unique<L>(context_, name, extent(from), std::forward<Args>(args)...), from});
  }
  /// Appends a layer that adds what `other` gave to the last one's output. Throws
  /// `invalid_argument` when they differ in extent.
  void add_sum(Tap other, const std::string& name);

  /// One sample's extents.
  const Extent& input() const { return input_; }
  Extent output() const { return extent(tap()); }
  std::size_t layer_count() const { return nodes_.size(); }
  /// One layer's, or all layers' in order.
  std::vector<Parameter*> parameters(std::size_t layer) {
    return nodes_[layer].layer->parameters();
  }
  std::vector<Parameter*> parameters();

  /// What `resize` will allocate for batches of this many samples.
  std::size_t activation_bytes(std::int64_t batch) const;

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
  struct Node {
    std::unique_ptr<Layer> layer;
    Tap from;
    std::optional<Tap> other = {};  ///< the second input
  };
  Extent extent(Tap tap) const { return tap == 0 ? input_ : nodes_[tap - 1].layer->output(); }
  void append(Node node);
  Activations around(const Node& node);
  /// Whether a layer after this one reads there too, and so has written its gradient already.
  bool read_later(Tap tap, std::size_t layer) const { return last_reader_[tap] > layer; }

  Context context_;
  Extent input_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> last_reader_;  ///< by tap: the index of a layer
  std::unique_ptr<SoftmaxLoss> loss_;
  std::int64_t batch_ = 0;
  /// The input, and what each layer makes of it; and their gradients.
  std::vector<std::vector<float>> activations_, gradients_;
  std::array<std::vector<float>, 2> shares_;  ///< of gradients that several layers add to
};

}  // namespace nn
