#include "benchmarks/allreduce/program.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>

#include "base/first_to_say.h"
#include "base/host.h"
#include "base/printable.h"
#include "benchmarks/allreduce/measure.h"
#include "benchmarks/allreduce/report.h"
#include "examples/command_line/command_line.h"
#include "tutti/error.h"

namespace tutti::bench {
namespace {

/// The processors in this rank's affinity mask.
int usable_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ::sched_getaffinity(0, sizeof mask, &mask);
  return CPU_COUNT(&mask);
}

/// "2026-11-29 04:20:11 UTC".
std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%F %T UTC", &parts);
  return text.data();
}

std::string command(int argc, char** argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) text += (i == 0 ? "" : " ") + std::string(argv[i]);
  return base::printable(text);
}

Setup describe(const World& world, const Settings& settings, const std::string& started_by) {
  Setup setup{settings, world.size(), number_hosts(world.gather(base::host_identity())),
              describe_mapping(world.gather(host_name())), describe_mpi()};
  setup.begin = fmt::format("{}: {}", date(), started_by);
  setup.facts.insert(setup.facts.begin(),
                     {fmt::format("processor: {}", base::processor_name()),
                      fmt::format("binding: {}", describe_mapping(world.gather(bound_to())))});
  setup.facts.push_back(fmt::format("processors that rank 0 may use: {}", usable_cpus()));
  return setup;
}

void say(const World& world, const std::string& text) {
  if (!world.speaks()) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// Checked before minutes of measuring.
void check_writable(const std::string& file) {
  if (!file.empty() && !std::ofstream(file, std::ios::app)) {
    throw Error(ErrorCode::invalid_argument, "cannot write " + file);
  }
}

void write(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  std::ofstream stream(file);
  if (!(stream << text << std::flush)) {
    throw Error(ErrorCode::invalid_argument, "cannot write " + file);
  }
}

std::vector<Row> measure(Race& run, const World& world, const Setup& setup) {
  const Settings& settings = setup.settings;
  std::vector<Row> all;
  for (const Operation op : settings.ops) {
    say(world, columns(op));
    for (const std::size_t count : settings.counts(op, world.size())) {
      for (const Case& how : settings.cases(op)) {
        const std::vector<Row> rows = run.run(how, count);
        say(world, lines(rows, setup));
        all.insert(all.end(), rows.begin(), rows.end());
      }
    }
  }
  return all;
}

/// Returns the program's exit status.
int judge(const World& world, const std::vector<Row>& rows, const Setup& setup) {
  const Verdict verdict = judge(rows, setup);
  say(world, verdict.text);
  return verdict.passed ? 0 : 1;
}

/// Returns the program's exit status.
int race(const World& world, const Settings& settings, const std::string& started_by,
         const MakeTutti& make_tutti_ones) {
  if (world.speaks()) {
    check_writable(settings.json);
    check_writable(settings.csv);
  }
  const Setup setup = describe(world, settings, started_by);
  Contestants contestants;
  const auto is_ours = [](const std::string& impl) { return impl != "mpi"; };
  if (std::any_of(settings.impls.begin(), settings.impls.end(), is_ours)) {
    contestants = make_tutti_ones(world, settings);
  }
  if (settings.runs("mpi")) contestants.push_back(make_mpi(settings));
  Race run(world, settings, std::move(contestants));
  say(world, head(setup));
  const std::vector<Row> rows = measure(run, world, setup);
  if (world.speaks()) {
    write(settings.json, json(rows, setup));
    write(settings.csv, csv(rows, setup));
  }
  return judge(world, rows, setup);
}

/// Ends the whole job: the other ranks may wait for this one. An error of usage is the same on all
/// ranks.
int end(const World& world, const char* why, int status) {
  const bool is_usage = status == command_line::usage_error;
  const std::string who = is_usage ? "" : fmt::format(", rank {}", world.rank());
  const std::string line = fmt::format("allreduce_bench{}: {}\n", who, why);
  if (!is_usage || base::is_first_to_say(line)) fmt::print(stderr, "{}", line);
  MPI_Abort(MPI_COMM_WORLD, status);
  return status;
}

}  // namespace

int run_program(int argc, char** argv, Settings settings, const MakeTutti& make_tutti_ones) {
  const std::string started_by = command(argc, argv);
  const World world(argc, argv);
  if (const auto status = parse(argc, argv, world.size(), world.speaks(), settings)) return *status;
  try {
    return race(world, settings, started_by, make_tutti_ones);
  } catch (const Error& error) {
    return end(world, error.what(), command_line::exit_status(error));
  } catch (const std::exception& error) {
    return end(world, error.what(), 1);
  }
}

}  // namespace tutti::bench
