#include "settings.h"

#include <sstream>
#include <stdexcept>

namespace standin {
namespace {

constexpr std::array<const char*, engines> engine_names{"h2d", "d2h", "d2d", "kernel", "nccl"};

/// "name=value": {name, value}.
std::pair<std::string, std::string> split(const std::string& word, char at) {
  const std::size_t place = word.find(at);
  if (place == std::string::npos) throw std::invalid_argument("stand-in: not understood: " + word);
  return {word.substr(0, place), word.substr(place + 1)};
}

bool set_speed(Machine& machine, const std::string& name, const std::string& value) {
  for (std::size_t engine = 0; engine < engines; ++engine) {
    if (name == engine_names[engine]) {
      machine.speed[engine].rate = std::stod(value);
      return true;
    }
    if (name == std::string(engine_names[engine]) + "_delay") {
      machine.speed[engine].delay = std::stod(value);
      return true;
    }
  }
  return false;
}

Fault read_fault(const std::string& text) {
  if (text == "skip") return {Fault::Kind::skip, 0};
  if (text == "hang") return {Fault::Kind::hang, 0};
  if (text.starts_with("late:")) return {Fault::Kind::late, std::stoi(text.substr(5))};
  return {Fault::Kind::at_once, std::stoi(text)};
}

}  // namespace

Machine read_machine(const std::string& words) {
  Machine machine;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    const auto [name, value] = split(word, '=');
    if (name == "devices") {
      machine.devices = std::stoi(value);
    } else if (name == "driver") {
      machine.driver = std::stoi(value);
    } else if (name == "shared") {
      machine.shared = value;
    } else if (!set_speed(machine, name, value)) {
      throw std::invalid_argument("stand-in: not understood: " + word);
    }
  }
  return machine;
}

Faults::Faults(const std::string& words) {
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    const auto [call, fault] = split(word, '=');
    const auto [function, number] = split(call, '#');
    planned_.emplace(function, Planned{std::stoi(number), read_fault(fault)});
  }
}

std::optional<Fault> Faults::next(const std::string& function) {
  const int call = ++calls_[function];
  const auto [begin, end] = planned_.equal_range(function);
  for (auto it = begin; it != end; ++it) {
    if (it->second.call == call || it->second.call == 0) return it->second.fault;
  }
  return std::nullopt;
}

int Faults::calls(const std::string& function) const {
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

}  // namespace standin
