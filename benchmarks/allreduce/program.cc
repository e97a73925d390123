#include "benchmarks/allreduce/program.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

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

Setup describe(const World& world, const Settings& settings) {
  const std::vector<std::string> hosts = world.gather(host_name());
  Setup setup{settings, world.size(), count_hosts(hosts), describe_mapping(hosts), describe_mpi()};
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
  if (!std::ofstream(file, std::ios::app)) {
    throw Error(ErrorCode::invalid_argument, "cannot write " + file);
  }
}

/// Returns the program's exit status.
int race(const World& world, const Settings& settings, const MakeTutti& make_tutti_ones) {
  if (world.speaks() && !settings.json.empty()) check_writable(settings.json);
  const Setup setup = describe(world, settings);
  Contestants contestants;
  const auto is_ours = [](const std::string& impl) { return impl != "mpi"; };
  if (std::any_of(settings.impls.begin(), settings.impls.end(), is_ours)) {
    contestants = make_tutti_ones(world, settings);
  }
  if (settings.runs("mpi")) contestants.push_back(make_mpi(settings));
  Race run(world, settings, std::move(contestants));
  say(world, head(setup));
  std::vector<Row> all;
  std::uint64_t wrong = 0;
  for (const std::size_t count : settings.counts(world.size())) {
    const std::vector<Row> rows = run.run(count);
    say(world, lines(rows, setup));
    for (const Row& row : rows) wrong += row.wrong;
    all.insert(all.end(), rows.begin(), rows.end());
  }
  if (world.speaks() && !settings.json.empty()) {
    std::ofstream file(settings.json);
    if (!(file << json(all, setup) << std::flush)) {
      throw Error(ErrorCode::invalid_argument, "cannot write " + settings.json);
    }
  }
  if (wrong == 0) return 0;
  say(world, fmt::format("# {} elements are wrong\n", wrong));
  return 1;
}

/// Ends the whole job: the other ranks may wait for this one.
int end(const World& world, const char* why, int status) {
  fmt::print(stderr, "allreduce_bench, rank {}: {}\n", world.rank(), why);
  MPI_Abort(MPI_COMM_WORLD, status);
  return status;
}

}  // namespace

int run_program(int argc, char** argv, Settings settings, const MakeTutti& make_tutti_ones) {
  const World world(argc, argv);
  if (const auto status = parse(argc, argv, world.size(), world.speaks(), settings)) return *status;
  try {
    return race(world, settings, make_tutti_ones);
  } catch (const Error& error) {
    return end(world, error.what(), command_line::exit_status(error));
  } catch (const std::exception& error) {
    return end(world, error.what(), 1);
  }
}

}  // namespace tutti::bench
