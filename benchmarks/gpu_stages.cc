// How fast a GPU alone does each step of a sum of device tensors. See --help.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "benchmarks/gpu_stages/bench.h"
#include "cuda/facts.h"
#include "examples/command_line/command_line.h"

namespace {

using namespace tutti;

/// Prints the same facts as tutti-info, which needs MPI.
void print_facts(const bench::gpu::Bench& bench) {
  for (const Fact& fact : cuda::facts()) {
    bench.print({{"part", "facts"}, {"name", fact.name}, {"value", fact.value}});
  }
}

const std::map<std::string, void (*)(const bench::gpu::Bench&)>& parts() {
  static const std::map<std::string, void (*)(const bench::gpu::Bench&)> all{
      {"facts", print_facts},
      {"copies", bench::gpu::measure_copies},
      {"calls", bench::gpu::measure_calls},
      {"kernels", bench::gpu::measure_kernels},
      {"host-sums", bench::gpu::measure_host_sums},
      {"pinning", bench::gpu::measure_pinning}};
  return all;
}

void print(const nlohmann::ordered_json& row) {
  fmt::print("{}\n", row.dump());
  std::fflush(stdout);
}

void sleep_until(double seconds) {
  using Clock = std::chrono::system_clock;
  const std::chrono::duration<double> since(seconds);
  std::this_thread::sleep_until(
      Clock::time_point(std::chrono::duration_cast<Clock::duration>(since)));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Measures the steps of sums on a GPU, each alone, and prints a line of JSON for each "
      "figure.");
  std::string part;
  std::vector<std::size_t> sizes = {1 << 20, 8 << 20, 64 << 20};
  int ordinal = 0;
  double seconds = 0.1;
  double start = 0;
  std::vector<std::size_t> sources = {2, 4, 8};
  std::string memory;
  std::vector<std::string> names;
  for (const auto& [name, measure] : parts()) names.push_back(name);
  app.add_option("PART", part, "facts, copies, calls, kernels, host-sums or pinning")
      ->required()
      ->check(command_line::one_of(names));
  app.add_option("--bytes", sizes, "the sizes that are copied, summed and pinned")
      ->delimiter(',')
      ->transform(command_line::size());
  app.add_option("--gpu", ordinal, "the device, as CUDA numbers it")->capture_default_str();
  app.add_option("--seconds", seconds, "the time for each figure")
      ->check(command_line::between(0, 60))
      ->capture_default_str();
  app.add_option("--sources", sources, "the number of tensors in a sum")
      ->delimiter(',')
      ->check(command_line::between(1, 64));
  app.add_option("--memory", memory, "measure only copies of this kind of host memory")
      ->check(command_line::one_of({"pinned", "registered", "pageable"}));
  app.add_option("--at", start,
                 "begin to measure at this time, in seconds since 1970, so that several "
                 "processes begin together");
  if (const auto status = command_line::parse_or_status(app, argc, argv)) return *status;
  try {
    const cuda::Gpu gpu(ordinal);
    const cuda::ContextGuard context(gpu);
    parts().at(part)({gpu, sizes, seconds, sources, memory, [&] { sleep_until(start); }, print});
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "gpu_stages: {}\n", command_line::text_of(error));
    return command_line::exit_status(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_stages: {}\n", command_line::text_of(error));
    return 1;
  }
}
