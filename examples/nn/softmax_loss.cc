#include "nn/softmax_loss.h"

#include <algorithm>
#include <cmath>

#include "nn/memory.h"

namespace nn {

void SoftmaxLoss::resize(std::int64_t batch) {
  data_ = rows(batch, {1, 1, classes_});
  log_softmax_ = dnnl::logsoftmax_forward(
      {{dnnl::prop_kind::forward_training, data_, 1}, stream_.get_engine()});
}

Score SoftmaxLoss::operator()(const float* scores, std::span<const std::uint8_t> labels,
                              float* d_scores) {
  log_softmax_.execute(stream_, {{DNNL_ARG_SRC, view(data_, stream_, scores)},
                                 {DNNL_ARG_DST, view(data_, stream_, d_scores)}});
  stream_.wait();
  Score score{.samples = static_cast<std::int64_t>(labels.size())};
  float* row = d_scores;
  for (const std::uint8_t label : labels) {
    score.loss -= row[label];
    score.correct += std::max_element(row, row + classes_) - row == label ? 1 : 0;
    for (std::int64_t c = 0; c < classes_; ++c) row[c] = std::exp(row[c]) - (c == label ? 1.0F : 0);
    row += classes_;
  }
  return score;
}

}  // namespace nn
