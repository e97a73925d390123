#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "dataset/images.h"
#include "dataset/sampler.h"
#include "training/exchange.h"
#include "training/settings.h"
#include "training/worker.h"

namespace training {

/// The results of an epoch over all workers, the same on each of them.
struct EpochResult {
  int epoch = 0;
  double train_loss = 0;  ///< mean over the samples, at the time they were trained on
  double train_accuracy = 0;
  std::optional<double> test_accuracy{};     ///< none without test images
  std::vector<double> step_loss{};           ///< mean over each global batch
  std::vector<double> samples_per_second{};  ///< by worker
  double all_samples_per_second = 0;
};

/// Trains in step with the other workers of the exchange.
class Trainer {
 public:
  /// Called before the first step of training or testing, and after each step. It gets the number
  /// of steps that are done, and the worker's own score up to now.
  using OnStep = std::function<void(bool testing, std::size_t step, std::size_t steps,
                                    const nn::Score& score)>;

  Trainer(const Settings& settings, const dataset::Dataset& data, Worker& worker,
          Exchange& exchange);

  /// Collective, blocks.
  EpochResult run_epoch(int epoch, const OnStep& on_step);
  /// Steps made so far.
  std::size_t steps() const { return steps_; }

 private:
  nn::Score train(int epoch, const OnStep& on_step, std::span<double> step_loss);
  void step(std::size_t index, nn::Score& score, double& loss);
  nn::Score test(const OnStep& on_step);

  const Settings& settings_;
  const dataset::Dataset& data_;
  Worker& worker_;
  Exchange& exchange_;
  dataset::Sampler sampler_;
  std::size_t steps_ = 0;
};

}  // namespace training
