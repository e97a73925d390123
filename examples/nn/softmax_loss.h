#pragma once
#include <cstdint>
#include <dnnl.hpp>
#include <span>
#include <vector>

#include "nn/layer.h"

namespace nn {

/// The loss and the number of right answers, summed over samples.
struct Score {
  double loss = 0;
  std::int64_t correct = 0;
  std::int64_t samples = 0;

  Score& operator+=(const Score& other) {
    loss += other.loss;
    correct += other.correct;
    samples += other.samples;
    return *this;
  }
};

/// Cross-entropy between the labels and the softmax of a network's output.
class SoftmaxLoss {
 public:
  SoftmaxLoss(dnnl::stream stream, std::int64_t classes)
      : stream_(std::move(stream)), classes_(classes) {}

  void resize(std::int64_t batch);
  /// Takes one row of scores and one label for each sample. Writes the loss's gradient to
  /// `d_scores`. Like every gradient here it is summed over samples.
  Score operator()(const float* scores, std::span<const std::uint8_t> labels, float* d_scores);

 private:
  dnnl::stream stream_;
  std::int64_t classes_;
  dnnl::memory::desc data_;
  dnnl::logsoftmax_forward log_softmax_;
};

}  // namespace nn
