#include "optimizer/saved.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "optimizer/cbor.h"
#include "optimizer/names.h"
#include "optimizer/rule.h"
#include "tutti/error.h"

namespace tutti::optimizer {
namespace {

using nlohmann::json;

constexpr const char* format = "tutti optimizer states";
constexpr int version = 1;
/// A program does not make so many updates in a million years, and the number can still be
/// increased.
constexpr std::int64_t most_updates = std::int64_t{1} << 60;
/// Nothing that is saved is nested deeper.
constexpr std::size_t deepest = 8;

json to_json(const Key& key) {
  return key.is_integer() ? json(key.integer()) : json(key.string());
}

Key to_key(const json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  Key key = value.get<std::string>();
  check_name(key);
  return key;
}

json to_json(const std::vector<std::byte>& array) {
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(array.data());
  return json::binary({begin, begin + array.size()});
}

std::vector<std::byte> to_array(const json& value) {
  const auto& bytes = value.get_binary();
  std::vector<std::byte> array(bytes.size());
  if (!bytes.empty()) std::memcpy(array.data(), bytes.data(), bytes.size());
  return array;
}

json to_json(const Key& key, const State& state) {
  json slots = json::array();
  for (const auto& slot : state.slots) slots.push_back(to_json(slot));
  return {{"key", to_json(key)},
          {"double", state.dtype == DType::f64},
          {"updates", state.updates},
          {"master", to_json(state.master)},
          {"slots", std::move(slots)}};
}

State to_state(const json& value) {
  State state;
  state.dtype = value.at("double").get<bool>() ? DType::f64 : DType::f32;
  state.updates = value.at("updates").get_ref<const std::int64_t&>();
  if (state.updates < 0 || state.updates > most_updates) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a key has {} updates, which is no possible number", state.updates));
  }
  state.master = to_array(value.at("master"));
  for (const json& slot : value.at("slots")) state.slots.push_back(to_array(slot));
  return state;
}

json to_json(const Optimizer& optimizer) {
  json factors = json::array();
  for (const auto& [key, of_key] : optimizer.factors) {
    factors.push_back({to_json(key), of_key.learning_rate, of_key.wd});
  }
  return {{"name", optimizer.name},
          {"parameters", optimizer.parameters},
          {"factors", std::move(factors)}};
}

Optimizer to_optimizer(const json& value) {
  Optimizer optimizer{.name = value.at("name").get<std::string>(),
                      .parameters = value.at("parameters").get<std::map<std::string, double>>()};
  for (const json& each : value.at("factors")) {
    optimizer.factors[to_key(each.at(0))] = {.learning_rate = each.at(1).get<double>(),
                                             .wd = each.at(2).get<double>()};
  }
  check_names(optimizer);
  return optimizer;
}

/// The arrays of a key have one size.
bool is_whole(const State& state) {
  if (state.slots.size() > Arrays<float>::most_slots) return false;
  for (const auto& slot : state.slots) {
    if (slot.size() != state.slots.front().size()) return false;
  }
  const bool fits = state.slots.empty() || state.master.size() == state.slots.front().size();
  return state.master.empty() || fits;
}

Saved from_json(const json& all) {
  Saved saved;
  saved.rule = all.at("rule").get<std::string>();
  check_name("optimizer", saved.rule);
  if (!all.at("optimizer").is_null()) saved.optimizer = to_optimizer(all.at("optimizer"));
  for (const json& each : all.at("states")) {
    State state = to_state(each);
    if (!is_whole(state)) throw Error(ErrorCode::invalid_argument, "arrays differ in size");
    saved.states.insert_or_assign(to_key(each.at("key")), std::move(state));
  }
  return saved;
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("not the states of an optimizer: {}", why));
}

}  // namespace

std::vector<std::uint8_t> write_saved(const Saved& saved) {
  json states = json::array();
  for (const auto& [key, state] : saved.states) states.push_back(to_json(key, state));
  return json::to_cbor({{"format", format},
                        {"version", version},
                        {"rule", saved.rule},
                        {"optimizer", saved.optimizer ? to_json(*saved.optimizer) : json()},
                        {"states", std::move(states)}});
}

Saved read_saved(std::span<const std::uint8_t> bytes) {
  try {
    const json all = read_cbor(bytes, deepest);
    if (all.at("format") != format) refuse("they begin otherwise");
    if (all.at("version") != version) {
      refuse(fmt::format("version {}, and this library reads version {}", all.at("version").dump(),
                         version));
    }
    return from_json(all);
  } catch (const std::invalid_argument& e) {
    refuse(e.what());
  } catch (const json::exception& e) {
    refuse(e.what());
  }
}

void check_fits(const Saved& saved, const Optimizer* mine) {
  if (saved.optimizer || (mine != nullptr && mine->name == saved.rule)) return;
  if (mine == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("these are states of optimizer '{}', without the optimizer itself, "
                            "and the store has none; call set_optimizer first, or save with "
                            "dump_optimizer",
                            saved.rule));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("these are states of optimizer '{}', but the store's optimizer is "
                          "'{}'; call set_optimizer('{}') first",
                          saved.rule, mine->name, saved.rule));
}

}  // namespace tutti::optimizer
