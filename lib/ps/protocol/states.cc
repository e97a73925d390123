#include "ps/protocol/states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tutti/shard.h"

namespace tutti::ps {
namespace {

using optimizer::State;

std::vector<std::byte> slice(const std::vector<std::byte>& whole, std::size_t element,
                             std::uint32_t piece, std::uint32_t pieces) {
  const Shard part =
      shard(whole.size() / element, static_cast<int>(piece), static_cast<int>(pieces));
  const auto at = [&](std::size_t i) {
    return whole.begin() + static_cast<std::ptrdiff_t>(i * element);
  };
  return {at(part.begin), at(part.end)};
}

struct InPieces {
  std::uint32_t pieces = 1;
  std::map<std::uint32_t, State> parts;
};

bool is_part(const State& part, const State& whole, std::uint32_t piece, std::uint32_t pieces) {
  const std::size_t count =
      shard(count_of(whole), static_cast<int>(piece), static_cast<int>(pieces)).count();
  const auto has_its_size = [&](const std::vector<std::byte>& slot) {
    return slot.size() == count * size_of(whole.dtype);
  };
  return part.dtype == whole.dtype && part.slots.size() == whole.slots.size() &&
         part.master.size() == (whole.master.empty() ? 0 : count * sizeof(float)) &&
         std::ranges::all_of(part.slots, has_its_size);
}

void check_whole(const Key& key, const State& whole, const InPieces& value) {
  std::string why;
  if (value.parts.size() < value.pieces) {
    why =
        "some of its pieces alone have a value, for its init or broadcast ended early; broadcast "
        "it again";
  } else if (!std::ranges::all_of(value.parts, [&](const auto& one) {
               return is_part(one.second, whole, one.first, value.pieces);
             })) {
    why = "the optimizer was changed while it was read; save it again";
  }
  if (why.empty()) return;
  throw Error(
      ErrorCode::mismatch,
      fmt::format("save_optimizer_states: key {} has no whole state: {}", key.describe(), why),
      {.key = key});
}

void append(std::vector<std::byte>& to, const std::vector<std::byte>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

std::size_t count_of(const State& state) {
  if (!state.master.empty()) return state.master.size() / sizeof(float);
  return state.slots.empty() ? 0 : state.slots.front().size() / size_of(state.dtype);
}

std::size_t bytes_of(const State& state) {
  std::size_t bytes = state.master.size();
  for (const auto& slot : state.slots) bytes += slot.size();
  return bytes;
}

std::optional<Failure> objection_to_size(std::string_view call, const Key& key, std::size_t bytes,
                                         std::size_t pieces) {
  // Room for the bytes around the arrays, and for the arrays of a piece that are one element
  // longer.
  constexpr std::size_t more = std::size_t{16} << 10;
  const std::size_t of_piece = bytes / pieces + more;
  if (of_piece <= most_elements_bytes) return std::nullopt;
  return Failure{ErrorCode::unsupported,
                 fmt::format("{}: the optimizer's state of key {} has {} bytes in a piece, and a "
                             "message has room for {}; give the value's parts keys of their own, "
                             "or take an optimizer that keeps less",
                             call, key.describe(), bytes / pieces, most_elements_bytes - more),
                 {}};
}

State part_of(const State& whole, std::uint32_t piece, std::uint32_t pieces) {
  State part{whole.dtype, whole.updates, slice(whole.master, sizeof(float), piece, pieces), {}};
  for (const auto& slot : whole.slots) {
    part.slots.push_back(slice(slot, size_of(whole.dtype), piece, pieces));
  }
  return part;
}

State completed(State state, State fresh) {
  const auto has_arrays = [](const State& one) {
    return !one.slots.empty() || !one.master.empty();
  };
  const bool fits = state.dtype == fresh.dtype && count_of(state) == count_of(fresh);
  if (has_arrays(state) && has_arrays(fresh) && !fits) return state;
  fresh.updates = state.updates;
  if (!fresh.master.empty() && !state.master.empty()) fresh.master = std::move(state.master);
  const std::size_t kept = std::min(state.slots.size(), fresh.slots.size());
  for (std::size_t i = 0; i < kept; ++i) fresh.slots[i] = std::move(state.slots[i]);
  return fresh;
}

State whole_of(const std::map<std::uint32_t, State>& parts) {
  State whole;
  whole.dtype = parts.begin()->second.dtype;
  for (const auto& [piece, part] : parts) {
    whole.updates = std::max(whole.updates, part.updates);
    append(whole.master, part.master);
    whole.slots.resize(std::max(whole.slots.size(), part.slots.size()));
    for (std::size_t i = 0; i < part.slots.size(); ++i) append(whole.slots[i], part.slots[i]);
  }
  return whole;
}

optimizer::Saved joined(std::span<const StateOfPiece> pieces) {
  optimizer::Saved joined;
  std::map<Key, InPieces> values;
  for (const StateOfPiece& one : pieces) {
    if (one.bytes.empty()) continue;
    optimizer::Saved part = unpacked(one.bytes);
    joined.rule = part.rule;
    if (part.optimizer) joined.optimizer = std::move(part.optimizer);
    for (auto& [key, state] : part.states) {
      InPieces& value = values.try_emplace(key, InPieces{one.pieces, {}}).first->second;
      value.parts.emplace(one.piece, std::move(state));
    }
  }
  for (const auto& [key, value] : values) {
    State whole = whole_of(value.parts);
    if (whole.updates == 0) continue;
    check_whole(key, whole, value);
    joined.states.emplace(key, std::move(whole));
  }
  return joined;
}

Failure no_optimizer() {
  return {ErrorCode::invalid_argument,
          "save_optimizer_states: the store has no optimizer; call set_optimizer first",
          {}};
}

std::vector<std::byte> packed(const optimizer::Saved& saved) {
  const std::vector<std::uint8_t> bytes = optimizer::write_saved(saved);
  std::vector<std::byte> result(bytes.size());
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

optimizer::Saved unpacked(std::span<const std::byte> bytes) {
  return optimizer::read_saved({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace tutti::ps
