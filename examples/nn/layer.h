#pragma once
#include <cstdint>
#include <dnnl.hpp>
#include <string>
#include <vector>

#include "nn/extent.h"
#include "tutti/tensor.h"

namespace nn {

/// The device on which a network computes, with oneDNN's objects for it.
struct Context {
  tutti::Device device;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};  ///< does not keep its engine alive
};

/// A named array of f32 that training changes. Its initial values are uniformly distributed over
/// [low, high].
struct Parameter {
  Parameter(std::string name, const tutti::Shape& shape, float low, float high,
            tutti::Device device);

  std::string name;
  float low;
  float high;
  tutti::Tensor value;
  tutti::Tensor gradient;  ///< the sum over the batch, not its mean
};

/// The inputs and outputs of one layer. The arrays are for a batch: n samples take n times the
/// extent.
struct Activations {
  const float* in;
  float* out;
  const float* d_out;          ///< backward only
  float* d_in;                 ///< backward only; null for the network's first layer
  const float* in2 = nullptr;  ///< second input, if the layer has one; then its gradient
  float* d_in2 = nullptr;
};

enum class Mode { training, inference };

/// One layer of a network, on one device. Call `resize` before `forward`, and `forward` in training
/// mode on the same activations before `backward`.
class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  virtual Extent output() const = 0;
  /// Prepares for batches of this many samples, at least one.
  virtual void resize(std::int64_t batch) = 0;
  virtual void forward(const Activations& at, Mode mode) = 0;
  /// Overwrites `d_in`, `d_in2` and the parameters' gradients.
  virtual void backward(const Activations& at) = 0;
  /// The layer's parameters, which it owns. They are the same ones in the same order every time.
  virtual std::vector<Parameter*> parameters() { return {}; }

 protected:
  explicit Layer(Context context) : context_(std::move(context)) {}
  const Context& context() const { return context_; }

 private:
  Context context_;
};

}  // namespace nn
