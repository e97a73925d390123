#include "explore.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tutti/error.h"

namespace tutti::coordinator::test {
namespace {

/// A state on the way, and the events not yet tried there.
struct Step {
  Mark mark;
  World world;
  std::vector<Event> events;
  std::size_t next = 0;
};

std::vector<std::string> path_of(const std::vector<Step>& steps) {
  std::vector<std::string> path;
  path.reserve(steps.size());
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
  std::unordered_map<Mark, bool, MarkHash> on_the_way;  // of every state seen
  std::unordered_set<Mark, MarkHash> of_ranks;
  std::vector<Step> steps;
  const auto arrive = [&](World world) {
    const Mark mark = world.mark();
    const auto [known, fresh] = on_the_way.try_emplace(mark, true);
    if (!fresh && known->second) throw Violation{"it goes round and round: " + world.describe()};
    if (!fresh) return;
    for (int r = 0; search.count_rank_states && r < world.size(); ++r) {
      of_ranks.insert(world.mark_of_rank(r));
    }
    std::vector<Event> events = choices(world, search);
    if (events.empty()) {
      ++found.ends;
      known->second = false;
      world.check_end();
      return;
    }
    steps.push_back({mark, std::move(world), std::move(events)});
  };
  try {
    arrive(start);
    while (!steps.empty()) {
      Step& here = steps.back();
      if (here.next == here.events.size()) {
        on_the_way.at(here.mark) = false;
        steps.pop_back();
        continue;
      }
      if (on_the_way.size() > search.most_states) {
        found.gave_up = true;
        throw Violation{"too many states"};
      }
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
  found.rank_states = of_ranks.size();
  found.states = on_the_way.size();
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
