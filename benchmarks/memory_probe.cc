// The memory bandwidth when all cores copy at the same time: bytes read plus written a second. See
// --help.
#include <fmt/format.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "examples/command_line/command_line.h"
#include "reduce/reduce.h"
#include "tutti/version.h"

namespace {

using Clock = std::chrono::steady_clock;

int usable_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ::sched_getaffinity(0, sizeof mask, &mask);
  return CPU_COUNT(&mask);
}

/// The memory of one thread. The thread touches it first, so that it lies next to its processor.
class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : bytes_(bytes), from_(new std::byte[bytes]), to_(new std::byte[bytes]) {
    std::memset(from_.get(), 1, bytes);
    std::memset(to_.get(), 2, bytes);
  }

  void copy(bool streaming) {
    using tutti::DType;
    const void* const from = from_.get();
    if (streaming) {
      tutti::reduce::reduce({DType::f32, DType::f32}, {&from, 1}, to_.get(), bytes_ / 4, true);
    } else {
      std::memcpy(to_.get(), from, bytes_);
    }
  }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte[]> from_;
  std::unique_ptr<std::byte[]> to_;
};

/// Passes of all threads together. The best pass counts, because the bound is what the memory can
/// do, even if something else ran meanwhile.
class Passes {
 public:
  Passes(int threads, double seconds)
      : end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        meeting_(threads, Between{this}) {}

  /// Every thread calls this before each pass. Returns false when the time is over.
  bool next() {
    meeting_.arrive_and_wait();
    return going_;
  }
  double best_seconds() const { return best_; }

 private:
  struct Between {
    Passes* passes;
    void operator()() const noexcept { passes->between(); }
  };
  /// One thread runs this between passes, while all others wait at the barrier.
  void between() noexcept {
    const Clock::time_point now = Clock::now();
    if (passes_ > 0) best_ = std::min(best_, std::chrono::duration<double>(now - start_).count());
    going_ = passes_++ < 3 || now < end_;
    start_ = Clock::now();
  }

  const Clock::time_point end_;
  Clock::time_point start_;
  double best_ = 1e300;
  bool going_ = true;
  int passes_ = 0;
  std::barrier<Between> meeting_;
};

/// The copy rate of all threads together, in GB/s.
double copy_rate(int threads, std::size_t footprint, double seconds, bool streaming) {
  const std::size_t each =
      std::max<std::size_t>(footprint / 2 / static_cast<std::size_t>(threads) / 64 * 64, 64);
  Passes passes(threads, seconds);
  {
    std::vector<std::jthread> team;
    team.reserve(static_cast<std::size_t>(threads));
    for (int i = 0; i < threads; ++i) {
      team.emplace_back([&] {
        Pages pages(each);
        while (passes.next()) pages.copy(streaming);
      });
    }
  }
  return 2.0 * static_cast<double>(each) * threads / passes.best_seconds() / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Copies memory with all processors at once, and prints as JSON the bytes that "
      "they read and write.");
  std::vector<std::size_t> footprints = {std::size_t{256} << 20};
  int threads = usable_cpus();
  double seconds = 0.5;
  app.add_option("--bytes", footprints, "the memory that one pass of all threads touches")
      ->delimiter(',')
      ->transform(command_line::size());
  app.add_option("--threads", threads, "the number of threads (default: one for each processor)")
      ->check(command_line::between(1, 4096));
  app.add_option("--seconds", seconds, "the time for each size and each way to copy");
  if (const auto status = command_line::parse_or_status(app, argc, argv)) return *status;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::size_t bytes : footprints) {
    const double cached = copy_rate(threads, bytes, seconds, false);
    const double streaming = copy_rate(threads, bytes, seconds, true);
    rows.push_back({{"bytes", bytes},
                    {"threads", threads},
                    {"build_type", tutti::build_type()},
                    {"memcpy_GBps", cached},
                    {"streaming_GBps", streaming},
                    {"best_GBps", std::max(cached, streaming)}});
  }
  fmt::print("{}\n", rows.dump(1));
}
