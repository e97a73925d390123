// The cost of agreeing on many small tensors: µs a step, control messages, an idle store. See
// --help.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "benchmarks/build_type.h"
#include "examples/command_line/command_line.h"
#include "tutti/tutti.h"

namespace {

using tutti::KVStore;
using tutti::ReduceOp;
using tutti::Tensor;

struct Settings {
  int tensors = 160;
  int elements = 1;
  int steps = 1000;
  int warmup = 100;
  double idle = 3;
  std::optional<bool> replay;  ///< unset: the environment decides
  std::string timeline;        ///< file; empty: no store that records one
  std::string json;
};

/// The tensors of a step, in one list call.
class Step {
 public:
  Step(KVStore& store, const Settings& settings) : store_(store) {
    const auto elements = static_cast<std::size_t>(settings.elements);
    values_.resize(static_cast<std::size_t>(settings.tensors) * elements);
    for (std::size_t i = 0; i < values_.size(); i += elements) {
      keys_.emplace_back(static_cast<std::int64_t>(keys_.size()));
      lists_.emplace_back(Tensor(values_.data() + i, {settings.elements}, tutti::DType::f32));
    }
  }

  /// Runs a step and returns its microseconds. Writing and checking the values is not included.
  double take(int turn) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<float>(store_.rank() + turn % 100) + static_cast<float>(i % 7);
    }
    const auto start = std::chrono::steady_clock::now();
    store_.pushpull(keys_, lists_, lists_).wait();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    const int n = store_.num_workers();
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const int of_ranks = n * (n - 1) / 2 + n * (turn % 100);
      const float right =
          static_cast<float>(of_ranks) + static_cast<float>(n) * static_cast<float>(i % 7);
      wrong_ += values_[i] == right ? 0 : 1;
    }
    return took.count();
  }

  double wrong() const { return wrong_; }

 private:
  KVStore& store_;
  std::vector<float> values_;
  std::vector<tutti::Key> keys_;
  std::vector<tutti::Values> lists_;
  double wrong_ = 0;
};

/// Reduces over all ranks, element by element.
std::vector<double> over_ranks(KVStore& store, int key, std::vector<double> mine, ReduceOp op) {
  const Tensor tensor(mine.data(), {static_cast<std::int64_t>(mine.size())}, tutti::DType::f64);
  store.pushpull(key, tensor, tensor, {.op = op}).wait();
  return mine;
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The part of a core that this process uses while its store has nothing to do.
double idle_use(KVStore& store, double seconds) {
  store.barrier();
  // For work that the barrier left over.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return (processor_seconds() - before) / seconds;
}

/// A store, and the times of its steps.
struct Lane {
  Lane(std::string name, const tutti::Options& options, const Settings& settings)
      : impl(std::move(name)),
        replay(options.replay),
        store(KVStore::create("dist_sync_mpi", options)),
        step(*store, settings) {}

  double count_messages() const { return static_cast<double>(store->counters().control_messages); }

  std::string impl;
  bool replay;
  std::shared_ptr<KVStore> store;
  Step step;
  std::vector<double> times;
  double messages = 0;
};
using Lanes = std::vector<std::unique_ptr<Lane>>;

/// Takes steps of all lanes in turn, so that disturbances of the machine affect all of them.
void take_turns(const Lanes& lanes, const Settings& settings) {
  for (int turn = 0; turn < settings.warmup; ++turn) {
    for (const auto& lane : lanes) lane->step.take(turn);
  }
  for (const auto& lane : lanes) {
    lane->messages = -lane->count_messages();
    lane->times.reserve(static_cast<std::size_t>(settings.steps));
  }
  for (int turn = 0; turn < settings.steps; ++turn) {
    for (const auto& lane : lanes) lane->times.push_back(lane->step.take(turn));
  }
  for (const auto& lane : lanes) lane->messages += lane->count_messages();
  // Extra steps: a rank that is ahead uses a new key below, which takes control messages. No rank
  // is more than one step ahead of another, so after these steps all have read their counters.
  for (int turn = 0; turn < 3; ++turn) {
    for (const auto& lane : lanes) lane->step.take(turn);
  }
}

nlohmann::ordered_json row(Lane& lane, const Settings& settings) {
  KVStore& store = *lane.store;
  const int own_key = settings.tensors;
  std::vector<double> times = over_ranks(store, own_key, std::move(lane.times), ReduceOp::max);
  std::sort(times.begin(), times.end());
  const auto totals =
      over_ranks(store, own_key + 1, {lane.messages, lane.step.wrong()}, ReduceOp::sum);
  const auto most = over_ranks(store, own_key + 2, {idle_use(store, settings.idle)}, ReduceOp::max);
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  return {{"impl", lane.impl},
          {"version", tutti::version()},
          {"build_type", tutti::build_type()},
          {"op", "negotiation"},
          {"dtype", "f32"},
          {"ranks", store.num_workers()},
          {"hosts", store.counters().nodes},
          {"bytes", settings.elements * 4},
          {"tensors", settings.tensors},
          {"replay", lane.replay},
          {"iters", settings.steps},
          {"time_us", {{"min", at(0)}, {"p50", at(0.5)}, {"p99", at(0.99)}, {"max", at(1)}}},
          {"control_messages", totals[0]},
          {"idle_cores", most[0]},
          {"wrong", totals[1]}};
}

/// Prints an array with one row on each line, and then how much longer steps take with a timeline.
void report(const std::vector<nlohmann::ordered_json>& rows, const std::string& file) {
  std::string text;
  fmt::print("{}", tutti::bench::build_type_line());
  for (const auto& each : rows) {
    fmt::print("{}\n", each.dump());
    text += (text.empty() ? "" : ",\n") + each.dump();
  }
  if (rows.size() > 1) {
    fmt::print("# with a timeline a step takes {:.3f} times as long (median)\n",
               rows[0]["time_us"]["p50"].get<double>() / rows[1]["time_us"]["p50"].get<double>());
  }
  if (!file.empty() && !(std::ofstream(file) << "[\n" << text << "\n]\n" << std::flush)) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument, "cannot write " + file);
  }
}

void declare(CLI::App& app, Settings& s) {
  const CLI::Validator positive = command_line::between(1, 1e6);
  app.add_option("--tensors", s.tensors, "the number of tensors in one list call")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--elements", s.elements, "the number of f32 elements of each tensor")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--steps", s.steps, "the number of steps that are measured")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--warmup", s.warmup, "the number of steps before them")
      ->check(command_line::between(0, 1e6))
      ->capture_default_str();
  app.add_option("--idle", s.idle, "the seconds for which the store is then idle")
      ->check(command_line::between(0.1, 3600.0))
      ->capture_default_str();
  app.add_flag_function(
      "--replay,!--no-replay", [&s](std::int64_t given) { s.replay = given > 0; },
      "repeat the plan without asking the coordinator (default: the value of TUTTI_REPLAY, or on)");
  app.add_option("--timeline", s.timeline,
                 "also time a store that records its timeline in this file, in turns with the "
                 "other, step by step; a timeline has room for a million events");
  app.add_option("--json", s.json,
                 "write the rows to this file: an array with one object for each row");
}

/// Returns the program's exit status.
int run(const Settings& settings) {
  tutti::Options options = tutti::Options::from_env();
  if (settings.replay) options.replay = *settings.replay;
  Lanes lanes;
  if (!settings.timeline.empty()) {
    // This store is made first, because the file of a later store has a number in its name.
    tutti::Options recording = options;
    recording.timeline = settings.timeline;
    lanes.push_back(std::make_unique<Lane>("timeline", recording, settings));
  }
  lanes.push_back(std::make_unique<Lane>("tutti", options, settings));
  take_turns(lanes, settings);
  std::vector<nlohmann::ordered_json> rows;
  for (const auto& lane : lanes) rows.push_back(row(*lane, settings));
  if (lanes[0]->store->rank() == 0) report(rows, settings.json);
  const bool right = std::ranges::all_of(rows, [](const auto& each) { return each["wrong"] == 0; });
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times steps of many small tensors, counts the messages to the coordinator, and the cost of "
      "an idle store.\nStart it with mpirun: mpirun -n 2 negotiation_bench");
  Settings settings;
  declare(app, settings);
  if (const auto status = command_line::parse_or_status(app, argc, argv)) return *status;
  try {
    return run(settings);
  } catch (const tutti::Error& error) {
    return command_line::complain("negotiation_bench", error, error.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "negotiation_bench: {}\n", error.what());
    return 1;
  }
}
