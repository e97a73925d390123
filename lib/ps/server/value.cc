#include "ps/server/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/own_tensor.h"
#include "ps/protocol/compression.h"
#include "reduce/reduce.h"

namespace tutti::ps {
namespace {

std::string describe(DType dtype, const Shape& shape) {
  return fmt::format("{} {}", name(dtype), shape.describe());
}

/// Describes a contribution: "push (sum) of f32 (2, 3)", "broadcast from worker 1 of f32 (2, 3)".
std::string describe(const Contribution& said) {
  std::string how;
  if (said.kind == Kind::broadcast) how = fmt::format(" from worker {}", said.root);
  if (said.kind == Kind::push || said.kind == Kind::pushpull) {
    how = fmt::format(" ({})", name(said.op));
  }
  return fmt::format("{}{} of {}", name(said.kind), how, describe(said.dtype, said.shape));
}

bool agree(const Contribution& a, const Contribution& b) {
  return a.kind == b.kind && a.op == b.op && a.root == b.root && a.dtype == b.dtype &&
         a.shape == b.shape;
}

/// The optimizer with only this key's factors, to be written with the key.
Optimizer narrowed(const Optimizer& whole, const Key& key) {
  Optimizer one{.name = whole.name, .parameters = whole.parameters};
  if (const auto it = whole.factors.find(key); it != whole.factors.end()) one.factors.insert(*it);
  return one;
}

}  // namespace

Value::Value(PieceName name, const Rules& rules) : name_(std::move(name)), rules_(rules) {
  take_optimizer();
}

void Value::take_optimizer() {
  if (!rules_.optimizer) return;
  Optimizer mine = narrowed(*rules_.optimizer, name_.key);
  if (updater_) {
    updater_->set(std::move(mine));
  } else {
    updater_.emplace(std::move(mine));
  }
}

Shard Value::piece_of(const Shape& shape) const {
  return shard(shape.count(), static_cast<int>(name_.index), static_cast<int>(name_.pieces));
}

Failure Value::refusal(std::string_view call, const std::string& text) const {
  return {ErrorCode::invalid_argument,
          fmt::format("{} of key {}: {}", call, name_.key.describe(), text),
          {}};
}

Value::Result Value::execute(std::span<const Contribution* const> round) {
  if (auto failure = disagreement(round)) return {.failure = std::move(failure)};
  const Contribution& first = *round.front();
  switch (first.kind) {
    case Kind::init:
      return initialise(first);
    case Kind::broadcast:
      return store(*round[static_cast<std::size_t>(first.root)]);
    default:
      return push(round);
  }
}

Value::Result Value::execute_alone(const Contribution& said) {
  if (!updater_) {
    return {.failure = refusal(name(said.kind),
                               "an asynchronous store updates its values at once, and needs an "
                               "optimizer for that; call set_optimizer first")};
  }
  const Contribution* const only = &said;
  return push({&only, 1});
}

Value::Result Value::read(const Pull& pull) const {
  const std::string_view call = pull.rows ? "row_sparse_pull" : "pull";
  if (!stored_) {
    return {.failure = refusal(call,
                               "it was never initialised; call init or broadcast for it "
                               "first")};
  }
  if (pull.dtype != stored_->dtype() || pull.shape != stored_->shape) {
    return {.failure = refusal(call, fmt::format("the tensor is {}, but the value is {}",
                                                 describe(pull.dtype, pull.shape),
                                                 describe(stored_->dtype(), stored_->shape)))};
  }
  return pull.rows ? read_rows(pull) : Result{.elements = stored_->elements};
}

std::optional<Failure> Value::disagreement(std::span<const Contribution* const> round) const {
  std::vector<int> ranks;
  std::string others;
  for (std::size_t i = 1; i < round.size(); ++i) {
    if (agree(*round[i], *round[0])) continue;
    // A few ranks tell as much as a thousand.
    if (ranks.size() < 4) others += fmt::format(", and worker {} made {}", i, describe(*round[i]));
    ranks.push_back(static_cast<int>(i));
  }
  if (ranks.empty()) return std::nullopt;
  const std::string text = fmt::format(
      "key {}: the calls of workers {} differ from that of worker 0, which made {}{}; the key "
      "keeps its value; all workers must make the same calls for a key",
      name_.key.describe(), fmt::join(ranks, ", "), describe(*round[0]), others);
  return Failure{ErrorCode::mismatch, text, std::move(ranks)};
}

/// A value of an earlier job takes the place of the program's initial value.
Value::Result Value::initialise(const Contribution& said) {
  if (!stored_) return store(said);
  const bool fits = said.dtype == stored_->dtype() && said.shape == stored_->shape;
  if (std::exchange(is_inherited_, false) && fits) return {.elements = stored_->elements};
  return {.failure = refusal("init", fmt::format("it is initialised already, as {}; push, "
                                                 "pushpull and broadcast change its value",
                                                 describe(stored_->dtype(), stored_->shape)))};
}

Value::Result Value::store(const Contribution& said) {
  const Shape mine{static_cast<std::int64_t>(piece_of(said.shape).count())};
  const bool replaces = stored_.has_value();
  stored_ = {said.shape, base::own_tensor(mine, said.dtype)};
  if (!said.data.empty()) std::memcpy(stored_->elements.data(), said.data.data(), said.data.size());
  if (replaces && updater_) updater_->take_value(name_.key, stored_->elements);
  is_inherited_ = false;
  return {.elements = stored_->elements};
}

/// Merges in one pass. The outputs may be the contributions' own memory. An average divides by the
/// number of all workers, even if each push counts alone. So the same number of pushes has the same
/// effect on the value.
void Value::merge(std::span<const Contribution* const> contributions, std::span<void*> outs) const {
  const Contribution& first = *contributions.front();
  const std::size_t count = piece_of(first.shape).count();
  std::vector<Tensor> unpacked;
  std::vector<const void*> sources;
  for (const Contribution* said : contributions) {
    const bool is_plain = said->compression.encoding == Encoding::none;
    if (!is_plain) unpacked.push_back(decoded(*said, count));
    sources.push_back(is_plain ? said->data.data() : unpacked.back().data());
  }
  const reduce::Kernel kernel{.in = first.dtype,
                              .out = first.dtype,
                              .op = first.op,
                              .divisor = static_cast<double>(rules_.workers)};
  if (outs.size() == 1) return reduce::reduce(kernel, sources, outs.front(), count);
  reduce::reduce_to_all(kernel, sources, outs, count);
}

/// The reason why the contribution is refused, if it is. Without an optimizer a pushpull may bring
/// any shape. If no value is stored, it only reduces.
std::optional<Failure> Value::objection(const Contribution& said) const {
  if (said.kind == Kind::pushpull && !updater_) return std::nullopt;
  if (!stored_) {
    return refusal(name(said.kind),
                   "it was never initialised; call init or broadcast for it first");
  }
  if (said.dtype != stored_->dtype() || said.shape != stored_->shape) {
    return refusal(name(said.kind), fmt::format("the tensor is {}, but the value is {}",
                                                describe(said.dtype, said.shape),
                                                describe(stored_->dtype(), stored_->shape)));
  }
  return updater_ ? objection_of_updater() : std::nullopt;
}

std::optional<Failure> Value::objection_of_updater() const {
  if (name_.pieces > 1 && updater_->needs_whole()) {
    return Failure{ErrorCode::unsupported,
                   fmt::format("key {}: {} needs the norm of the whole value, but the servers "
                               "have split this value into {} pieces; call set_optimizer before "
                               "the key's first init or broadcast, so that the value stays whole",
                               name_.key.describe(), updater_->optimizer().name, name_.pieces),
                   {}};
  }
  try {
    updater_->check(name_.key, stored_->elements);
    return std::nullopt;
  } catch (const Error& error) {
    return Failure{error.code(), error.what(), {}};
  }
}

/// Copies the elements before they change, because answers that are on their way keep the old
/// elements.
void Value::stop_sharing() {
  if (stored_->elements.owner().use_count() == 1) return;
  const Tensor old = stored_->elements;
  stored_->elements = base::own_tensor(old.shape(), old.dtype());
  std::memcpy(stored_->elements.data(), old.data(), old.bytes());
}

/// Without an optimizer: merges into the rooms of the workers that want the result and have a room.
/// Also merges into a tensor, if other workers want the result or if it becomes the value.
Value::Result Value::sum(std::span<const Contribution* const> contributions) {
  const Contribution& first = *contributions.front();
  const Shape mine{static_cast<std::int64_t>(piece_of(first.shape).count())};
  Result result{.delivered =
                    first.kind == Kind::pushpull ? mine.count() * size_of(first.dtype) : 0};
  std::vector<void*> outs;
  for (const Contribution* said : contributions) {
    if (result.is_in(*said)) outs.push_back(said->place.data());
  }
  if (stored_ || outs.size() < contributions.size()) {
    result.elements = base::own_tensor(mine, first.dtype);
    outs.push_back(result.elements.data());
  }
  merge(contributions, outs);
  if (stored_) *stored_ = {first.shape, result.elements};
  is_inherited_ = false;
  return result;
}

Value::Result Value::push(std::span<const Contribution* const> contributions) {
  const Contribution& first = *contributions.front();
  if (auto failure = objection(first)) return {.failure = std::move(failure)};
  if (!updater_) return sum(contributions);
  const Tensor gradient = base::own_tensor(stored_->elements.shape(), first.dtype);
  void* out = gradient.data();
  merge(contributions, {&out, 1});
  stop_sharing();
  updater_->update(name_.key, gradient, stored_->elements);
  return {.elements = stored_->elements};
}

}  // namespace tutti::ps
