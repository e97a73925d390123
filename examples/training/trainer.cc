#include "training/trainer.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace training {
namespace {

/// The results that each worker tells the others at the end of an epoch.
struct Report {
  double correct = 0;
  double samples = 0;
  double seconds = 0;
  double test_correct = 0;
};
constexpr std::size_t report_size = 4;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Trainer::Trainer(const Settings& settings, const dataset::Dataset& data, Worker& worker,
                 Exchange& exchange)
    : settings_(settings),
      data_(data),
      worker_(worker),
      exchange_(exchange),
      sampler_({.samples = data.train.count(),
                .batch_size = static_cast<std::size_t>(settings.batch_size),
                .num_parts = exchange.ranks(),
                .part_index = exchange.rank(),
                .seed = settings.seed}) {}

EpochResult Trainer::run_epoch(int epoch, const OnStep& on_step) {
  const auto ranks = static_cast<std::size_t>(exchange_.ranks());
  const std::size_t steps = sampler_.steps();
  // One list holds everything: the loss of each step, then a report of each worker. Each worker
  // fills its own places, so the sum over workers holds all of them.
  std::vector<double> numbers(steps + report_size * ranks);
  const auto step_loss = std::span(numbers).first(steps);

  const auto start = std::chrono::steady_clock::now();
  const nn::Score score = train(epoch, on_step, step_loss);
  exchange_.settle_weights();
  const Report mine{static_cast<double>(score.correct), static_cast<double>(score.samples),
                    seconds_since(start), static_cast<double>(test(on_step).correct)};
  double* place = &numbers[steps + report_size * static_cast<std::size_t>(exchange_.rank())];
  for (const double number : {mine.correct, mine.samples, mine.seconds, mine.test_correct}) {
    *place++ = number;
  }
  exchange_.sum("epoch", numbers);

  EpochResult result{.epoch = epoch};
  Report all;
  for (std::size_t i = 0; i < ranks; ++i) {
    const double* r = &numbers[steps + report_size * i];
    result.samples_per_second.push_back(r[1] / r[2]);
    all.correct += r[0];
    all.samples += r[1];
    all.seconds = std::max(all.seconds, r[2]);
    all.test_correct += r[3];
  }
  result.all_samples_per_second = all.samples / all.seconds;
  result.train_loss = std::accumulate(step_loss.begin(), step_loss.end(), 0.0) / all.samples;
  result.train_accuracy = all.correct / all.samples;
  if (data_.test.count() > 0) {
    result.test_accuracy = all.test_correct / static_cast<double>(data_.test.count());
  }
  for (std::size_t i = 0; i < steps; ++i) {
    result.step_loss.push_back(step_loss[i] / static_cast<double>(sampler_.global_batch_size(i)));
  }
  return result;
}

nn::Score Trainer::train(int epoch, const OnStep& on_step, std::span<double> step_loss) {
  sampler_.start_epoch(static_cast<std::uint64_t>(epoch));
  nn::Score score;
  on_step(false, 0, step_loss.size(), score);
  for (std::size_t i = 0; i < step_loss.size(); ++i) {
    step(i, score, step_loss[i]);
    on_step(false, i + 1, step_loss.size(), score);
  }
  return score;
}

void Trainer::step(std::size_t index, nn::Score& score, double& loss) {
  const bool store_updates = exchange_.store_updates();
  const std::size_t global_batch = sampler_.global_batch_size(index);
  // A store that updates by each worker's gradients makes as many updates as there are workers:
  // all of them together are one step.
  const nn::Score own = worker_.compute(data_.train, sampler_.batch(index), [&](std::size_t layer) {
    if (store_updates) worker_.average(layer, global_batch);
    exchange_.push_gradients(layer);
  });
  for (std::size_t layer = 0; layer < worker_.layer_count(); ++layer) {
    exchange_.wait_gradients(layer);
    if (!store_updates) worker_.update(layer, global_batch);
  }
  score += own;
  loss = own.loss;
  ++steps_;
}

nn::Score Trainer::test(const OnStep& on_step) {
  const dataset::Range part =
      dataset::part_of(data_.test.count(), exchange_.ranks(), exchange_.rank());
  const auto batch = static_cast<std::size_t>(settings_.batch_size);
  const std::size_t batches = (part.size() + batch - 1) / batch;
  nn::Score score;
  on_step(true, 0, batches, score);
  for (std::size_t i = 0; i < batches; ++i) {
    const std::size_t begin = part.begin + i * batch;
    score += worker_.evaluate(data_.test, begin, std::min(begin + batch, part.end));
    on_step(true, i + 1, batches, score);
  }
  return score;
}

}  // namespace training
