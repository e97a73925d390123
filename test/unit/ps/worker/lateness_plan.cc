// The right results of the calls in a job whose workers are late.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <utility>

#include "unit/ps/worker/lateness.h"

namespace tutti::ps::lateness {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t keys = 3;
constexpr int patient = 40;  ///< attempts, of what must succeed in the end

/// Computes the right results of the calls, one worker after the other. All workers make the same
/// calls.
class Model {
 public:
  explicit Model(int workers)
      : values_(keys), sum_(static_cast<float>(workers * (workers + 1)) / 2) {}

  float stored(std::size_t key) const { return values_[key].value(); }
  /// How a call ends that does not time out.
  std::string end(const Made& made) {
    const std::optional<float>& value = values_[made.key];
    switch (made.what) {
      case Made::What::pull:
        return fmt::format("{}", value.value());
      case Made::What::row:
        return fmt::format("row {}", value.value());
      case Made::What::round:
        return end_of_round(made);
      case Made::What::load:
        momenta_.assign(keys, 0);
        momenta_[made.key] = made.base;
        [[fallthrough]];
      case Made::What::optimizer:
        rate_ = made.base;
        [[fallthrough]];
      case Made::What::compression:
        break;
    }
    return "done";
  }

 private:
  std::string end_of_round(const Made& made) {
    std::optional<float>& value = values_[made.key];
    const float sum = made.base * sum_;
    if (made.kind == Kind::init) {
      value = made.base;
    } else if (made.kind == Kind::broadcast) {
      value = made.base * static_cast<float>(made.root + 1);
    } else if (!value) {
      return fmt::format("{}", sum);
    } else if (rate_ > 0) {
      float& change = momenta_[made.key];
      change = change / 2 - rate_ * sum;
      *value += change;
    } else {
      value = sum;
    }
    return made.gets_data() ? fmt::format("{}", *value) : "done";
  }

  std::vector<std::optional<float>> values_;
  std::vector<float> momenta_ = std::vector<float>(keys);
  float rate_ = 0;  ///< 0: there is no optimizer
  const float sum_;
};

}  // namespace

void check(const Plan& plan, const World& world) {
  const std::vector<Ending>& ends = world.ends_of(0);
  for (int worker = 1; worker < plan.workers; ++worker) {
    for (std::size_t i = 0; i < std::min(ends.size(), world.ends_of(worker).size()); ++i) {
      INFO("call " << i << " of worker " << worker);
      const Ending& other = world.ends_of(worker)[i];
      REQUIRE((other.is_late() ? other.text : "") == (ends[i].is_late() ? ends[i].text : ""));
    }
    REQUIRE(world.ends_of(worker).size() == ends.size());
  }
  Model model(plan.workers);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::string right = ends[i].is_late() ? ends[i].text : model.end(ends[i].made);
    for (int worker = 0; worker < plan.workers; ++worker) {
      CHECK(world.ends_of(worker)[i].text == right);
    }
  }
  for (std::size_t key = 1; key < keys; ++key) CHECK(world.stored(key) == model.stored(key));
}

void check_asynchronous(const Plan& plan, const World& world) {
  std::vector<std::vector<std::string>> broadcasts(static_cast<std::size_t>(plan.workers));
  float left = 0;
  for (int worker = 0; worker < plan.workers; ++worker) {
    for (const Ending& end : world.ends_of(worker)) {
      const bool is_round = end.made.what == Made::What::round;
      if (is_round && end.made.kind == Kind::broadcast) {
        broadcasts[static_cast<std::size_t>(worker)].push_back(end.text);
      } else if (is_round && end.made.kind == Kind::push && !end.is_late()) {
        left -= end.made.base * static_cast<float>(worker + 1);
      } else if (!end.is_late()) {
        CHECK(end.text == "done");
      }
    }
  }
  for (const auto& of_worker : broadcasts) CHECK(of_worker == broadcasts[0]);
  CHECK(world.stored(1) == left);
}

namespace {

/// Draws what a job's workers make, and how late they are.
class Planner {
 public:
  Planner(std::uint64_t seed, bool asynchronous)
      : random_(seed),
        plan_{.workers = 2 + static_cast<int>(below(2)),
              .servers = 1 + static_cast<int>(below(2)),
              .asynchronous = asynchronous,
              .timeout = 100ms,
              .slowest_message = below(2) == 0 ? 1ms : 8ms,
              .slowest_piece = below(3) == 0 ? 40ms : 2ms,
              .restarts = below(2) == 0},
        attempts_(std::array{1, 2, patient}.at(below(3))) {}

  Plan plan() {
    if (plan_.asynchronous) {
      add_asynchronous();
    } else {
      add_synchronous();
    }
    return std::move(plan_);
  }

 private:
  using What = Made::What;
  using Phases = std::vector<std::vector<Made>>;

  std::uint64_t below(std::uint64_t most) { return random_() % most; }
  float some() { return static_cast<float>(1 + below(8)); }
  int some_root() { return static_cast<int>(below(static_cast<std::uint64_t>(plan_.workers))); }

  void add(Phases phases, int attempts) {
    Step step{.phases = std::move(phases), .attempts = attempts};
    for (int worker = 0; worker < plan_.workers; ++worker) {
      // The workers come on time, at any time, or about when the others' time is up.
      const std::array<Clock::duration, 4> choices{
          0ms, std::chrono::microseconds(below(300'000)),
          plan_.timeout + std::chrono::microseconds(below(10'000)) - 5ms, 0ms};
      step.lateness.push_back(choices.at(below(choices.size())));
    }
    plan_.steps.push_back(std::move(step));
  }

  void add_asynchronous() {
    plan_.staleness = 1 + static_cast<int>(below(2));
    add({{Made{.kind = Kind::init, .key = 1, .base = 0}}}, patient);
    add({{Made{.what = What::optimizer, .base = 1}}}, patient);
    for (int i = 0; i < 12; ++i) {
      if (below(3) > 0) add({{Made{.kind = Kind::push, .key = 1, .base = some()}}}, patient);
      if (below(4) == 0) add({{Made{.what = What::compression, .base = some()}}}, patient);
      if (below(4) == 0) add({{Made{.what = What::load, .key = 1, .base = 1}}}, patient);
      if (below(3) == 0) {
        add({{Made{.kind = Kind::broadcast, .key = 2, .root = some_root(), .base = some()}}},
            attempts_);
      }
    }
  }

  /// Key 0 is only reduced; the others have a value first.
  void add_synchronous() {
    for (std::size_t key = 1; key < keys; ++key) {
      add({{Made{.kind = Kind::init, .key = key, .base = 0}}}, patient);
    }
    for (int i = 0; i < 12; ++i) {
      if (below(3) == 0) {
        add(setting(), attempts_);
      } else {
        add(rounds(), attempts_);
      }
    }
  }

  /// The setting follows a push for whose end nobody has waited.
  Phases setting() {
    const auto what = std::array{What::optimizer, What::compression, What::load}.at(below(3));
    has_optimizer_ = has_optimizer_ || what != What::compression;
    const std::size_t key = 1 + below(keys - 1);
    return {{Made{.kind = Kind::push, .key = key, .base = some()},
             Made{.what = what, .key = key, .base = some()}}};
  }

  Phases rounds() {
    const float base = some();
    const std::size_t key = 1 + below(keys - 1);
    const int root = some_root();
    const Made push{.kind = Kind::push, .key = key, .base = base};
    switch (below(6)) {
      case 0:
        return {{Made{.kind = Kind::pushpull, .key = key, .base = base}}};
      case 1:
        return {{push, Made{.what = What::pull, .key = key}}};
      case 2:  // an object: first its size, then its contents
        return {{Made{.kind = Kind::broadcast, .key = 1, .root = root, .base = base}},
                {Made{.kind = Kind::broadcast, .key = 2, .root = root, .base = base + 1}}};
      case 3:
        return {{Made{.kind = Kind::push, .key = 1, .base = base},
                 Made{.kind = Kind::pushpull, .key = has_optimizer_ ? 1U : 0U, .base = base},
                 Made{.kind = Kind::push, .key = 2, .base = base}}};
      case 4:
        return {{push, Made{.kind = Kind::push, .key = key, .base = base + 1},
                 Made{.kind = Kind::pushpull, .key = key, .base = base + 2}}};
      default:
        return {{push}, {Made{.what = What::row, .key = key}}};
    }
  }

  std::mt19937_64 random_;
  Plan plan_;
  const int attempts_;
  bool has_optimizer_ = false;
};

}  // namespace

Plan plan_of(std::uint64_t seed, bool asynchronous) {
  return Planner(seed, asynchronous).plan();
}

}  // namespace tutti::ps::lateness
