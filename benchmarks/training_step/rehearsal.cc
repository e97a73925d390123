#include "benchmarks/training_step/rehearsal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <utility>

#include "benchmarks/allreduce/times.h"
#include "benchmarks/meeting.h"

namespace tutti::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Distributes the time of both passes over the layers, in proportion to their work.
std::vector<LayerCost> share_out(const Model& model, const StepSettings& settings) {
  double work = 0;
  for (const LayerShape& layer : model) work += layer.work;
  std::vector<LayerCost> costs;
  for (const LayerShape& layer : model) {
    double elements = 0;
    for (const std::size_t count : layer.tensors) elements += static_cast<double>(count);
    const double share = layer.work / work / 1e3;
    costs.push_back({share * settings.forward_ms, share * settings.backward_ms,
                     elements * settings.wire_bytes()});
  }
  return costs;
}

}  // namespace

Rehearsal::Rehearsal(KVStore& store, const Model& model, const StepSettings& settings)
    : store_(store),
      settings_(settings),
      planned_(share_out(model, settings)),
      samples_(model.size()),
      pattern_(DType::f32, store.num_workers()),
      compute_(settings.busy) {
  for (const LayerShape& shape : model) {
    Layer& layer = layers_.emplace_back();
    for (const std::size_t count : shape.tensors) {
      layer.keys.emplace_back(fmt::format("{}_{}", shape.name, layer.keys.size()));
      layer.gradients.emplace_back(count);
      layer.values.emplace_back(
          Tensor(layer.gradients.back().data(), {static_cast<std::int64_t>(count)}, DType::f32));
    }
  }
  if (!settings.optimizer.empty()) begin_weights();
}

void Rehearsal::begin_weights() {
  for (Layer& layer : layers_) store_.init(layer.keys, layer.values);
  store_.set_optimizer({.name = settings_.optimizer, .parameters = {{"learning_rate", 1.0}}});
}

void Rehearsal::fill(Layer& layer) {
  for (std::vector<float>& gradient : layer.gradients) {
    pattern_.fill(gradient.data(), gradient.size(), store_.rank(), turn_);
  }
}

void Rehearsal::push(std::size_t layer) {
  Layer& at = layers_[layer];
  const int priority = settings_.priority ? -static_cast<int>(layer) : 0;
  at.pending = store_.pushpull(at.keys, at.values, at.values, {.priority = priority});
}

void Rehearsal::await(std::size_t layer) {
  const Pending& pending = layers_[layer].pending;
  const bool in_time = pending.done();
  pending.wait();
  if (in_time) {
    compute_.leave_out();
  } else {
    compute_.restart();
  }
}

void Rehearsal::backward(bool exchanging, Clock::time_point start) {
  for (std::size_t layer = layers_.size(); layer-- > 0;) {
    fill(layers_[layer]);
    compute_.run(planned_[layer].backward);
    if (!exchanging) {
      samples_[layer].ready.push_back(seconds_since(start));
      continue;
    }
    push(layer);
    compute_.leave_out();
  }
}

void Rehearsal::forward(bool exchanging, Clock::time_point start) {
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (exchanging) {
      await(layer);
    } else {
      samples_[layer].begun.push_back(seconds_since(start));
    }
    compute_.run(planned_[layer].forward);
  }
}

std::vector<double> Rehearsal::run(bool exchanging, Turns turns) {
  std::vector<double> seconds;
  std::uint64_t before = 0;
  const int last = turns.warmup + turns.measured - 1;
  store_.barrier();
  compute_.restart();
  for (int step = 0; step <= last; ++step, ++turn_) {
    if (step == turns.warmup) before = store_.counters().control_messages;
    const auto start = Clock::now();
    backward(exchanging, start);
    // The counter is read before any rank can end its forward pass and make calls that belong to no
    // step.
    if (step == last) messages_ = store_.counters().control_messages - before;
    forward(exchanging, start);
    if (step >= turns.warmup) seconds.push_back(seconds_since(start));
    if (!exchanging || !settings_.optimizer.empty() || (step != 0 && step != last)) continue;
    check();
    compute_.restart();
  }
  steps_per_second_ = turns.measured / std::reduce(seconds.begin(), seconds.end());
  return across_ranks(std::move(seconds), ReduceOp::max);
}

std::vector<double> Rehearsal::steps() {
  const std::uint64_t first = turn_;
  std::vector<double> seconds = run(true, settings_.whole_steps());
  std::vector<double> mine(static_cast<std::size_t>(store_.num_workers()));
  mine[static_cast<std::size_t>(store_.rank())] = steps_per_second_;
  rates_ = across_ranks(std::move(mine), ReduceOp::sum);
  if (!settings_.optimizer.empty()) check_weights(first);
  return seconds;
}

std::vector<double> Rehearsal::compute_alone() {
  samples_.assign(layers_.size(), {});
  std::vector<double> seconds = run(false, settings_.alone_steps());
  costs_ = planned_;
  // The end of a step is where the forward pass of a layer after the last would begin. Its start is
  // where that layer's gradients would be ready.
  double end = summarise(seconds).p50;
  double start = 0;
  for (std::size_t layer = layers_.size(); layer-- > 0;) {
    const double begun = summarise(samples_[layer].begun).p50;
    const double ready = summarise(samples_[layer].ready).p50;
    costs_[layer].forward = std::exchange(end, begun) - begun;
    costs_[layer].backward = ready - std::exchange(start, ready);
  }
  return seconds;
}

std::vector<double> Rehearsal::communication_alone() {
  const Turns turns = settings_.alone_steps();
  std::vector<double> seconds;
  for (int step = 0; step < turns.warmup + turns.measured; ++step, ++turn_) {
    for (Layer& layer : layers_) fill(layer);
    // The ranks meet in a tensor, not at a barrier, so that the store may go on replaying.
    largest(0);
    const auto start = Clock::now();
    for (std::size_t layer = layers_.size(); layer-- > 0;) push(layer);
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) await(layer);
    if (step >= turns.warmup) seconds.push_back(seconds_since(start));
  }
  return across_ranks(std::move(seconds), ReduceOp::max);
}

void Rehearsal::check() {
  for (const Layer& layer : layers_) {
    for (const std::vector<float>& sum : layer.gradients) {
      wrong_ += pattern_.wrong_in_sum(sum.data(), sum.size(), turn_);
    }
  }
}

/// All ranks have pushed the gradients of all turns from this one on; an f32 holds their sums
/// exactly.
void Rehearsal::check_weights(std::uint64_t first_turn) {
  store_.barrier();
  for (Layer& layer : layers_) {
    store_.pull(layer.keys, layer.values).wait();
    for (const std::vector<float>& weights : layer.gradients) {
      std::vector<float> expected(weights.size());
      std::vector<float> pushed(weights.size());
      for (int rank = 0; rank < store_.num_workers(); ++rank) {
        for (std::uint64_t turn = first_turn; turn < turn_; ++turn) {
          pattern_.fill(pushed.data(), pushed.size(), rank, turn);
          std::ranges::transform(expected, pushed, expected.begin(), std::minus());
        }
      }
      wrong_ += static_cast<std::uint64_t>(std::inner_product(
          weights.begin(), weights.end(), expected.begin(), 0, std::plus(), std::not_equal_to()));
    }
  }
  compute_.restart();
}

std::uint64_t Rehearsal::wrong() {
  return static_cast<std::uint64_t>(
      across_ranks({static_cast<double>(wrong_)}, ReduceOp::sum).front());
}

std::uint64_t Rehearsal::control_messages() {
  return static_cast<std::uint64_t>(
      across_ranks({static_cast<double>(messages_)}, ReduceOp::sum).front());
}

double Rehearsal::largest(double mine) {
  return across_ranks({mine}, ReduceOp::max).front();
}

std::vector<double> Rehearsal::across_ranks(std::vector<double> mine, ReduceOp op) {
  if (!settings_.optimizer.empty()) return over_workers(store_, mine, op);
  const auto count = static_cast<std::int64_t>(mine.size());
  const Tensor tensor(mine.data(), {count}, DType::f64);
  const std::string key = fmt::format("{} of {} numbers", name(op), count);
  store_.pushpull(key, tensor, tensor, {.op = op}).wait();
  return mine;
}

}  // namespace tutti::bench
