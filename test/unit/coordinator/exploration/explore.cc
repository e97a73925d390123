#include "explore.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <unordered_set>

#include "tutti/error.h"

namespace tutti::coordinator::test {
namespace {

/// 128 bits of a state. Two states taken for one among 10^8: a chance of 10^-23.
struct Mark {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  bool operator==(const Mark&) const = default;
};

struct MarkHash {
  std::size_t operator()(const Mark& mark) const { return mark.a; }
};

Mark mark_of(std::string_view bytes) {
  Mark mark{std::hash<std::string_view>{}(bytes), bytes.size()};
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), sizeof(std::uint64_t)))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
    mark.b = (mark.b ^ word) * 0x9E3779B97F4A7C15ULL;
    mark.b ^= mark.b >> 29;
  }
  return mark;
}

/// A state on the way, and the events not yet tried there.
struct Step {
  World world;
  std::vector<Event> events;
  std::size_t next = 0;
};

std::vector<std::string> path_of(const std::vector<Step>& steps) {
  std::vector<std::string> path;
  for (const Step& step : steps) path.push_back(name(step.events[step.next - 1]));
  return path;
}

std::vector<Event> choices(const World& world, const Search& search) {
  std::vector<Event> events = world.enabled();
  if (!search.reduce) return events;
  std::optional<std::vector<Event>> fewest;
  for (int r = 0; r < world.size(); ++r) {
    if (!world.is_shielded(r)) continue;
    std::vector<Event> own;
    for (const Event& event : events) {
      if (event.rank == r && event.what != Event::to_coordinator) own.push_back(event);
    }
    if (!own.empty() && (!fewest || own.size() < fewest->size())) fewest = std::move(own);
  }
  return fewest ? *fewest : events;
}

}  // namespace

Found explore(const World& start, const Search& search) {
  Found found;
  std::unordered_set<Mark, MarkHash> seen;
  std::vector<Step> steps;
  const auto arrive = [&](World world) {
    if (!seen.insert(mark_of(world.fingerprint())).second) return;
    std::vector<Event> events = choices(world, search);
    if (events.empty()) {
      ++found.ends;
      world.check_end();
      return;
    }
    steps.push_back({std::move(world), std::move(events)});
  };
  try {
    arrive(start);
    while (!steps.empty()) {
      Step& here = steps.back();
      if (here.next == here.events.size()) {
        steps.pop_back();
        continue;
      }
      if (seen.size() > search.most_states) throw Violation{"too many states"};
      const Event event = here.events[here.next++];
      World world = here.next == here.events.size() ? std::move(here.world) : here.world;
      ++found.transitions;
      world.apply(event);
      arrive(std::move(world));
    }
  } catch (const Violation& violation) {
    found.violation = violation.what;
    found.path = path_of(steps);
  } catch (const Error& error) {
    found.violation = std::string("internal error: ") + error.what();
    found.path = path_of(steps);
  }
  found.states = seen.size();
  return found;
}

World advanced(World world, bool (*enough)(const World&)) {
  while (!enough(world)) {
    const std::vector<Event> events = world.enabled();
    if (events.empty()) throw Violation{"the world ends before it gets there"};
    world.apply(events.front());
  }
  return world;
}

}  // namespace tutti::coordinator::test
