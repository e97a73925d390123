#include "optimizer/updater.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "optimizer/saved.h"
#include "reduce/reduce.h"
#include "tutti/error.h"

namespace tutti::optimizer {
namespace {

/// The dtype in which a value's updates are computed.
DType wide(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

void convert(const void* from, DType in, void* to, DType out, std::size_t count) {
  reduce::reduce({.in = in, .out = out}, {&from, 1}, to, count);
}

std::vector<float> widened(const Tensor& tensor) {
  std::vector<float> wide(tensor.count());
  convert(tensor.data(), tensor.dtype(), wide.data(), DType::f32, tensor.count());
  return wide;
}

/// The number of elements of one of a state's arrays.
std::size_t count_of(const State& state) {
  return state.slots.front().size() / size_of(state.dtype);
}

bool fits(const State& state, const Tensor& weight) {
  return state.slots.empty() ||
         (count_of(state) == weight.count() && state.dtype == wide(weight.dtype()));
}

[[noreturn]] void refuse(const Key& key, const std::string& text) {
  throw Error(ErrorCode::invalid_argument, fmt::format("key {}: {}", key.describe(), text),
              {.key = key});
}

}  // namespace

Updater::Updater(Optimizer optimizer)
    : optimizer_(std::move(optimizer)), chosen_(choose(optimizer_)) {}

void Updater::set(Optimizer optimizer) {
  Chosen chosen = choose(optimizer);
  if (optimizer.name != optimizer_.name) states_.clear();
  optimizer_ = std::move(optimizer);
  chosen_ = std::move(chosen);
}

bool Updater::can_update(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

void Updater::check(const Key& key, const Tensor& weight) const {
  if (!can_update(weight.dtype())) {
    refuse(key, fmt::format("optimizer '{}' updates floats, and the value is {}; set no optimizer, "
                            "or keep such values in another store",
                            optimizer_.name, name(weight.dtype())));
  }
  const auto it = states_.find(key);
  if (it == states_.end() || fits(it->second, weight)) return;
  refuse(key, fmt::format("the optimizer's state is for {} elements of {}, and the value is {} {}; "
                          "was it loaded from the file of another model?",
                          count_of(it->second), name(it->second.dtype), name(weight.dtype()),
                          weight.shape().describe()));
}

void Updater::take_value(const Key& key, const Tensor& weight) {
  const auto it = states_.find(key);
  if (it == states_.end()) return;
  it->second.master.clear();
  if (!fits(it->second, weight)) states_.erase(it);
}

/// Adds the arrays that are missing, because the key is new or the rule has new parameters. They
/// begin as zeros; the master copy begins as the value.
void Updater::complete(State& state, const Tensor& weight) const {
  state.dtype = wide(weight.dtype());
  state.slots.resize(chosen_.rule->slots());
  for (auto& slot : state.slots) slot.resize(weight.count() * size_of(state.dtype));
  const bool wants_master = chosen_.multi_precision && weight.dtype() != state.dtype;
  if (!wants_master) {
    state.master.clear();
  } else if (state.master.size() != weight.count() * sizeof(float)) {
    state.master.resize(weight.count() * sizeof(float));
    convert(weight.data(), weight.dtype(), state.master.data(), DType::f32, weight.count());
  }
}

State Updater::initial_state(const Tensor& weight) const {
  State state;
  complete(state, weight);
  return state;
}

template <typename T>
void Updater::apply(const Key& key, State& state, std::size_t count, const T* gradient, T* weight) {
  const auto it = optimizer_.factors.find(key);
  const auto factors = it == optimizer_.factors.end() ? Optimizer::Factors{} : it->second;
  Arrays<T> arrays{.count = count, .weight = weight, .gradient = gradient};
  for (std::size_t i = 0; i < state.slots.size(); ++i) {
    arrays.slots.at(i) = reinterpret_cast<T*>(state.slots[i].data());
  }
  chosen_.rule->update({.learning_rate = chosen_.learning_rate * factors.learning_rate,
                        .wd = chosen_.wd * factors.wd,
                        .updates = ++state.updates},
                       arrays);
}

void Updater::update(const Key& key, const Tensor& gradient, const Tensor& weight) {
  State& state = states_[key];
  complete(state, weight);
  if (weight.dtype() == DType::f32) {
    apply(key, state, weight.count(), gradient.as<float>(), weight.as<float>());
  } else if (weight.dtype() == DType::f64) {
    apply(key, state, weight.count(), gradient.as<double>(), weight.as<double>());
  } else {
    const std::vector<float> wide_gradient = widened(gradient);
    std::vector<float> wide_weight;
    float* values = reinterpret_cast<float*>(state.master.data());
    if (state.master.empty()) {
      wide_weight = widened(weight);
      values = wide_weight.data();
    }
    apply(key, state, weight.count(), wide_gradient.data(), values);
    convert(values, DType::f32, weight.data(), weight.dtype(), weight.count());
  }
}

std::vector<std::uint8_t> Updater::save(bool with_optimizer) const {
  return write_saved(
      {.rule = optimizer_.name,
       .optimizer = with_optimizer ? std::optional<Optimizer>(optimizer_) : std::nullopt,
       .states = states_});
}

void Updater::load(std::span<const std::uint8_t> bytes) {
  Saved saved = read_saved(bytes);
  check_fits(saved, &optimizer_);
  if (saved.optimizer) set(*std::move(saved.optimizer));
  states_ = std::move(saved.states);
}

Updater Updater::loaded(std::span<const std::uint8_t> bytes) {
  Saved saved = read_saved(bytes);
  check_fits(saved, nullptr);
  Updater updater(*std::move(saved.optimizer));
  updater.states_ = std::move(saved.states);
  return updater;
}

}  // namespace tutti::optimizer
