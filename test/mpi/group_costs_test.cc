// The cost of a store over some ranks while it is open and idle: processor time, threads, bytes;
// run under mpirun. A rank has sixteen of them at the same time.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t groups = 16;

struct Place {
  int rank = 0;
  int size = 1;
};

Place place() {
  static const Place mine = [] {
    const auto store = make_store();
    return Place{store->rank(), store->num_workers()};
  }();
  return mine;
}

using Stores = std::vector<std::unique_ptr<KVStore>>;

/// Sixteen over ranks 0 to `size` - 1, used once; none on other ranks.
Stores stores_over_first(int size) {
  Stores stores;
  if (place().rank >= size) return stores;
  Options options = Options::from_env();
  for (int rank = 0; rank < size; ++rank) options.ranks.push_back(rank);
  for (std::size_t i = 0; i < groups; ++i) {
    stores.push_back(make_store(options));
    check_alive(*stores.back());
  }
  return stores;
}

/// The threads of this process that tutti has started.
std::size_t threads() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name.starts_with("tutti-") ? 1U : 0U;
  }
  return count;
}

/// The bytes of this process that are in memory. Of shared memory, only pages that it has touched
/// count.
std::uint64_t resident() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0;
  std::uint64_t pages = 0;
  file >> all >> pages;
  return pages * 4096;
}

struct Use {
  double seconds = 0;  ///< of processors
  std::int64_t wakeups = 0;
};

Use use() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_nvcsw};
}

}  // namespace

TEST_CASE("sixteen idle groups use no processor time, and no thread of theirs polls") {
  constexpr auto nap = 2s;
  constexpr double most_seconds = 0.01;
  // Heartbeats wake each group's thread a few times. One thread alone that polled every 10 ms would
  // wake more often than all of them.
  constexpr std::int64_t most_wakeups = 8 * groups;
  const Stores stores = stores_over_first(std::min(place().size, 4));
  if (stores.empty()) return;
  // Memory that was used a moment ago may still be in use.
  std::this_thread::sleep_for(200ms);
  const Use before = use();
  std::this_thread::sleep_for(nap);
  const Use after = use();
  CHECK(after.seconds - before.seconds <= most_seconds);
  CHECK(after.wakeups - before.wakeups <= most_wakeups);
}

TEST_CASE("ranks that wait for a late one to create their group with them sleep") {
  if (place().size < 2) return;
  constexpr auto late_by = 2s;
  constexpr double most_seconds = 0.1;
  Options options = Options::from_env();
  options.ranks = {0, place().size - 1};
  if (!(place().rank == 0 || place().rank == place().size - 1)) return;
  if (place().rank != 0) std::this_thread::sleep_for(late_by);
  const Use before = use();
  const auto store = make_store(options);
  CHECK(use().seconds - before.seconds <= most_seconds);
  check_alive(*store);
}

TEST_CASE("an idle group has two threads, its first rank three, and a group of one none") {
  for (int size = 1; size <= std::min(place().size, 4); ++size) {
    const std::size_t before = threads();
    const Stores stores = stores_over_first(size);
    std::size_t each = place().rank == 0 ? 3 : 2;
    if (size == 1) each = 0;
    CHECK(threads() == before + each * stores.size());
  }
}

TEST_CASE("an idle group reserves less than 3 MiB, and has touched less than 256 KiB") {
  constexpr std::uint64_t may_reserve = std::uint64_t{3} << 20;
  constexpr std::uint64_t may_touch = std::uint64_t{256} << 10;
  for (int size = 1; size <= std::min(place().size, 4); ++size) {
    const std::uint64_t before = resident();
    const Stores stores = stores_over_first(size);
    if (stores.empty()) continue;
    const std::uint64_t reserved = stores.front()->counters().buffer_bytes;
    const std::uint64_t touched = (resident() - before) / groups;
    CHECK(reserved <= (size == 1 ? std::uint64_t{4} << 10 : may_reserve));
    CHECK(touched <= may_touch);
    if (place().rank == 0) {
      WARN(fmt::format("a group of {}: {} KiB reserved, {} KiB touched", size, reserved >> 10,
                       touched >> 10));
    }
  }
}
