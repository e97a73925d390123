#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "benchmarks/allreduce/pattern.h"
#include "benchmarks/training_step/bound.h"
#include "benchmarks/training_step/compute.h"
#include "benchmarks/training_step/model.h"
#include "benchmarks/training_step/settings.h"
#include "tutti/kvstore.h"

namespace tutti::bench {

/// Runs simulated training steps on one rank, in step with the others. All methods but the
/// constructor are collective and block.
class Rehearsal {
 public:
  /// Keeps references to all three arguments.
  Rehearsal(KVStore& store, const Model& model, const StepSettings& settings);

  /// Each returns the seconds of the measured steps. A step takes as long as on its slowest rank,
  /// from the beginning of one backward pass to that of the next.
  std::vector<double> steps();
  std::vector<double> compute_alone();
  /// Submits all gradients at once, from the last layer's to the first's.
  std::vector<double> communication_alone();

  /// The cost of each layer on this rank, as `compute_alone` has measured it.
  const std::vector<LayerCost>& costs() const { return costs_; }
  /// The number of wrong elements in the first and the last of `steps`, over all ranks. With an
  /// optimizer: in the weights after the last step.
  std::uint64_t wrong();
  /// The times of each rank, in `steps`. In an asynchronous store no rank waits for the others.
  const std::vector<double>& steps_per_second() const { return rates_; }
  /// Messages to and from the coordinator while `steps` was measured, over all ranks.
  std::uint64_t control_messages();
  /// The maximum over all ranks.
  double largest(double mine);

 private:
  struct Layer {
    std::vector<Key> keys;
    std::vector<std::vector<float>> gradients;
    std::vector<Values> values;
    Pending pending;
  };

  using Clock = std::chrono::steady_clock;
  /// When a layer's gradients were ready and when its forward pass began, in seconds from the
  /// step's start, one number for each step. Durations of single layers would not do: a layer that
  /// woke late makes the next one short.
  struct Samples {
    std::vector<double> ready, begun;
  };

  std::vector<double> run(bool exchanging, Turns turns);
  void backward(bool exchanging, Clock::time_point start);
  void forward(bool exchanging, Clock::time_point start);
  void push(std::size_t layer);
  void await(std::size_t layer);
  void fill(Layer& layer);
  void begin_weights();
  void check();
  void check_weights(std::uint64_t first_turn);
  std::vector<double> across_ranks(std::vector<double> mine, ReduceOp op);

  KVStore& store_;
  const StepSettings& settings_;
  std::vector<Layer> layers_;
  std::vector<LayerCost> planned_, costs_;
  std::vector<Samples> samples_;
  Pattern pattern_;
  Compute compute_;
  std::uint64_t turn_ = 0;
  std::uint64_t wrong_ = 0;      ///< on this rank
  double steps_per_second_ = 0;  ///< on this rank, in the last run
  std::vector<double> rates_;
  std::uint64_t messages_ = 0;  ///< of this rank
};

}  // namespace tutti::bench
