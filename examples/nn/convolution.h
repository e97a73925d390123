#pragma once
#include <optional>

#include "nn/layer.h"
#include "nn/weighted.h"

namespace nn {

/// Two-dimensional convolution with a square kernel.
class Convolution : public Layer {
 public:
  struct Geometry {
    std::int64_t channels;  ///< of the output
    std::int64_t kernel;
    std::int64_t stride = 1;
    std::int64_t padding = 0;  ///< on each side
    bool bias = true;          ///< not needed before a batch normalisation, which shifts anyway
  };

  Convolution(const Context& context, const std::string& name, const Extent& input,
              const Geometry& geometry);

  Extent output() const override;
  void resize(std::int64_t batch) override;
  void forward(const Activations& at, Mode mode) override;
  void backward(const Activations& at) override;
  std::vector<Parameter*> parameters() override;

 private:
  Parameter* bias() { return bias_ ? &*bias_ : nullptr; }

  Extent input_;
  Geometry geometry_;
  Parameter weight_;
  std::optional<Parameter> bias_;
  Weighted product_;
};

}  // namespace nn
