// Times push and pull through a parameter server. See --help.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/allreduce/times.h"
#include "benchmarks/build_type.h"
#include "benchmarks/meeting.h"
#include "benchmarks/server/exchange.h"
#include "examples/command_line/command_line.h"
#include "tutti/tutti.h"

namespace {

using namespace tutti::bench;
using tutti::KVStore;
using tutti::ReduceOp;
using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

constexpr int most_turns = 1000;
constexpr std::size_t keys_of_resnet50 = 161;

struct Settings {
  std::vector<std::string> as = {"array"};
  std::vector<std::size_t> sizes = {4, std::size_t{64} << 10};
  std::string store = "dist_sync";
  std::string wire = "none";
  double seconds = 2;
  int least = 5;
  int warmup = 5;
  double rest = 0;
  std::string json;
};

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

ordered_json row(const KVStore& store, const std::string& impl, std::size_t bytes,
                 const std::vector<double>& times, double wrong) {
  const Times all = summarise(times);
  return {
      {"impl", impl},
      {"version", tutti::version()},
      {"build_type", tutti::build_type()},
      {"op", "push and pull"},
      {"store", store.type()},
      {"dtype", "f32"},
      {"ranks", store.num_workers()},
      {"bytes", bytes},
      {"iters", times.size()},
      {"time_us",
       {{"min", all.min}, {"p50", all.p50}, {"p99", all.p99}, {"max", all.max}, {"avg", all.avg}}},
      {"wrong", wrong}};
}

/// The turns of one size. Each turn takes as long as on its slowest worker.
class Turns {
 public:
  Turns(KVStore& store, const Settings& settings, Exchange& exchange)
      : store_(store), settings_(settings), exchange_(exchange) {}

  ordered_json run(const std::string& impl) {
    for (int i = 0; i < settings_.warmup; ++i) take();
    times_.clear();
    const auto start = Clock::now();
    do {
      for (int i = 0; i < settings_.least; ++i) take();
    } while (times_.size() < most_turns &&
             over_workers(store_, {microseconds_since(start)}, ReduceOp::max)[0] <
                 settings_.seconds * 1e6);
    const auto wrong = over_workers(store_, {static_cast<double>(wrong_)}, ReduceOp::sum);
    auto found =
        row(store_, impl, exchange_.bytes(), over_workers(store_, times_, ReduceOp::max), wrong[0]);
    found["keys"] = exchange_.keys();
    return found;
  }

 private:
  void take() {
    exchange_.fill(turn_);
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(settings_.rest));
    store_.barrier();
    const auto start = Clock::now();
    exchange_.run();
    times_.push_back(microseconds_since(start));
    // The check comes after a barrier, because it must not take a processor from a worker that
    // still waits.
    store_.barrier();
    wrong_ += exchange_.wrong(turn_++);
  }

  KVStore& store_;
  const Settings& settings_;
  Exchange& exchange_;
  std::vector<double> times_;
  std::uint64_t turn_ = 0;
  std::uint64_t wrong_ = 0;
};

/// Measures the time from one update to the next, whichever worker makes it.
ordered_json update(KVStore& store, const Settings& settings, std::size_t bytes) {
  Updates updates(store, fmt::format("{} updated", bytes), bytes / sizeof(float));
  for (int i = 0; i < settings.warmup; ++i) updates.run();
  store.barrier();
  const std::uint64_t before = updates.done();
  const auto start = Clock::now();
  while (microseconds_since(start) < settings.seconds * 1e6) updates.run();
  const double mine = static_cast<double>(updates.done() - before) / microseconds_since(start);
  const auto sums = over_workers(store, {mine, static_cast<double>(updates.done())}, ReduceOp::sum);
  const std::size_t wrong = updates.wrong(static_cast<std::uint64_t>(sums[1]));
  const auto all_wrong = over_workers(store, {static_cast<double>(wrong)}, ReduceOp::sum);
  return row(store, "tutti updates", updates.bytes(), {1 / sums[0]}, all_wrong[0]);
}

ordered_json measure(KVStore& store, const Settings& settings, const std::string& as,
                     std::size_t bytes) {
  if (as == "updates") return update(store, settings, bytes);
  const std::size_t count = bytes / sizeof(float);
  const bool cut = as == "keys";
  Exchange exchange(store, fmt::format("{} {}", as, bytes),
                    cut ? like_resnet50(count) : std::vector<std::size_t>{count});
  return Turns(store, settings, exchange).run(cut ? "tutti keys" : "tutti");
}

void declare(CLI::App& app, Settings& s) {
  app.add_option("--as", s.as,
                 "the form of the data: array (one tensor), keys (as many keys as ResNet-50 has, "
                 "each with at least one element), or updates (of an asynchronous store)")
      ->delimiter(',')
      ->check(command_line::one_of({"array", "keys", "updates"}))
      ->capture_default_str();
  app.add_option("--bytes", s.sizes, "the sizes; K, M, G are powers of 1024")
      ->delimiter(',')
      ->transform(command_line::size())
      ->type_name("SIZE,...");
  app.add_option("--kv-store,--kvstore", s.store, "the store's type")->capture_default_str();
  app.add_option("--wire", s.wire, "the format in which gradients travel: none (f32), fp16 or bf16")
      ->check(command_line::one_of({"none", "fp16", "bf16"}).description(""))
      ->capture_default_str();
  app.add_option("--seconds", s.seconds, "the time for each size")
      ->check(command_line::between(0.001, 3600.0).description(""))
      ->capture_default_str();
  app.add_option("--least", s.least, "the least number of turns for each size")
      ->check(command_line::between(1, most_turns).description(""))
      ->capture_default_str();
  app.add_option("--warmup", s.warmup, "the number of turns before them")
      ->check(command_line::between(0, 1e6).description(""))
      ->capture_default_str();
  app.add_option("--rest", s.rest,
                 "the milliseconds before each turn in which the program sends nothing")
      ->check(command_line::between(0.0, 1e4).description(""))
      ->capture_default_str();
  app.add_option("--json", s.json,
                 "write the rows to this file: an array with one object for each row");
}

void report(const std::vector<ordered_json>& rows, const std::string& file) {
  std::string text;
  fmt::print("{}", build_type_line());
  for (const auto& each : rows) {
    fmt::print("{}\n", each.dump());
    text += (text.empty() ? "" : ",\n") + each.dump();
  }
  if (!file.empty() && !(std::ofstream(file) << "[\n" << text << "\n]\n" << std::flush)) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument, "cannot write " + file);
  }
}

/// Returns the program's exit status.
int run(const Settings& settings) {
  const auto store = KVStore::create(settings.store);
  if (settings.wire != "none") store->set_gradient_compression(settings.wire);
  std::vector<ordered_json> rows;
  double wrong = 0;
  for (const std::size_t bytes : settings.sizes) {
    for (const std::string& as : settings.as) {
      if (as == "keys" && bytes / sizeof(float) < keys_of_resnet50) continue;
      rows.push_back(measure(*store, settings, as, bytes));
      wrong += rows.back()["wrong"].get<double>();
    }
  }
  if (store->rank() == 0) report(rows, settings.json);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times push and pull through a parameter server: sums of all workers, or updates by each.\n"
      "Start it in a job with servers:\n"
      "  scripts/launch.py -n 2 -s 1 --launcher local build/benchmarks/server_bench");
  Settings settings;
  declare(app, settings);
  if (const auto status = command_line::parse_or_status(app, argc, argv)) return *status;
  try {
    return run(settings);
  } catch (const tutti::Error& error) {
    return command_line::complain("server_bench", error, error.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "server_bench: {}\n", error.what());
    return 1;
  }
}
