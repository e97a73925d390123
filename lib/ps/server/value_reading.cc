// Reads parts of a piece: rows, and the state that its optimizer keeps.
#include <cstring>
#include <utility>

#include "base/own_tensor.h"
#include "ps/protocol/messages.h"
#include "ps/protocol/rows.h"
#include "ps/protocol/states.h"
#include "ps/server/value.h"

namespace tutti::ps {
namespace {

Tensor tensor_of(std::span<const std::byte> bytes) {
  Tensor tensor = base::own_tensor({static_cast<std::int64_t>(bytes.size())}, DType::u8);
  if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace

Value::Result Value::read_rows(const Pull& pull) const {
  const Shard piece = piece_of(pull.shape);
  const std::size_t count = count_of_rows(*pull.rows, pull.shape, piece);
  Tensor rows = base::own_tensor({static_cast<std::int64_t>(count)}, pull.dtype);
  gather_rows(*pull.rows, pull.shape, piece, size_of(pull.dtype),
              stored_->elements.as<const std::byte>(), rows.as<std::byte>());
  return {.elements = std::move(rows)};
}

Value::Result Value::read_state() const {
  if (!updater_) return {.failure = no_optimizer()};
  std::map<Key, optimizer::State> states = updater_->states();
  if (stored_ && updater_->can_update(stored_->dtype())) {
    optimizer::State& state = states[name_.key];
    state = completed(std::move(state), updater_->initial_state(stored_->elements));
  }
  if (states.empty()) return {};
  const std::size_t bytes = bytes_of(states.begin()->second);
  if (auto failure = objection_to_size("save_optimizer_states", name_.key, bytes, 1)) {
    return {.failure = std::move(failure)};
  }
  return {.elements =
              tensor_of(packed({.rule = updater_->optimizer().name, .states = std::move(states)}))};
}

void Value::set_state(std::optional<optimizer::State> state) {
  std::map<Key, optimizer::State> states;
  if (state) states.emplace(name_.key, *std::move(state));
  updater_->set_states(std::move(states));
}

}  // namespace tutti::ps
