#include "benchmarks/registered.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>

#include "benchmarks/build_type.h"
#include "examples/command_line/command_line.h"

namespace tutti::bench {
namespace {

bool has_word(std::span<char* const> words, std::string_view start) {
  return std::ranges::any_of(words, [&](std::string_view word) { return word.starts_with(start); });
}

/// Google Benchmark calls this for a value that it does not know, and would then exit with 0.
void refuse() {
  fmt::print(stderr, "an option's value is not one of those that there are; --help lists them\n");
  std::exit(command_line::usage_error);
}

/// Goes to the error stream, because the output may be JSON.
void announce(double seconds) {
  if (std::string_view(build_type()) != "release") fmt::print(stderr, "{}", build_type_line());
  fmt::print(stderr,
             "all benchmarks take about {}; --benchmark_filter=REGEX runs some of them "
             "(--benchmark_list_tests shows their names), --benchmark_min_time=0.05 takes a tenth "
             "of the time for each\n",
             seconds < 100 ? fmt::format("{:.0f} s", seconds)
                           : fmt::format("{:.0f} minutes", seconds / 60));
}

}  // namespace

int run_registered(int argc, char** argv, double seconds) {
  const std::span<char* const> words(argv, static_cast<std::size_t>(argc));
  const bool lists = has_word(words, "--benchmark_list_tests");
  const bool shorter =
      has_word(words, "--benchmark_filter") || has_word(words, "--benchmark_min_time");
  const bool helps = has_word(words, "--help");
  if (has_word(words, "--version")) {
    fmt::print("tutti {}\n", TUTTI_VERSION);
    return 0;
  }
  benchmark::AddCustomContext("build_type", build_type());
  benchmark::Initialize(&argc, argv, helps ? benchmark::PrintDefaultHelp : refuse);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return command_line::usage_error;
  if (!lists && !shorter) announce(seconds);
  return benchmark::RunSpecifiedBenchmarks() > 0 ? 0 : command_line::usage_error;
}

}  // namespace tutti::bench
