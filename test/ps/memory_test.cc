#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "ps/local_job.h"
#include "unit/base/logged.h"

using namespace tutti;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

/// While it lives no memory can be shared: files may not be as large.
class SmallFiles {
 public:
  SmallFiles() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = 1 << 20;
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
};

/// Mappings of memory that workers and servers share, in this process.
int shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:tutti-ps") != std::string::npos ? 1 : 0;
  }
  return count;
}

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

/// Trains values of many sizes, and says what came of it, to the last bit.
std::string train(KVStore& kv) {
  kv.set_optimizer({"sgd", {{"learning_rate", 0.1}, {"momentum", 0.9}}});
  std::uint64_t hash = 0;
  for (const std::size_t count : {3U, 5000U, 70'001U, 1'500'000U}) {
    const Key key(fmt::format("of {}", count));
    Floats value(count);
    Floats gradient(count);
    for (std::size_t i = 0; i < count; ++i) value[i] = static_cast<float>(i % 97);
    kv.broadcast(key, tensor(value), 0).wait();
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < count; ++i) {
        gradient[i] = 1.0F / static_cast<float>(i % 31 + 3 + static_cast<std::size_t>(kv.rank()));
      }
      kv.pushpull(key, tensor(gradient), tensor(value)).wait();
    }
    kv.push({key}, {tensor(gradient)});
    kv.pull({key}, {tensor(value)}).wait();
    for (const float each : value) hash = hash * 31 + std::bit_cast<std::uint32_t>(each);
  }
  return fmt::format("{:x}", hash);
}

Said trained(int& mappings) {
  LocalJob job({.workers = 3, .servers = 2, .big_count = 100'000});
  std::atomic<int> seen{0};
  Said said = job.run([&](KVStore& kv) {
    std::string words = train(kv);
    kv.barrier();
    if (kv.rank() == 0) seen = shared_mappings();
    kv.barrier();
    return words;
  });
  CHECK(job.ends() == Said{"", "", ""});
  mappings = seen;
  return said;
}

/// Values of 1 MiB each.
std::vector<Floats> many_values() {
  return std::vector<Floats>(32, Floats(std::size_t{1} << 18, 1.5F));
}

/// Sums all of them, from the first on or from the last.
std::vector<Pending> sum(KVStore& kv, std::vector<Floats>& values, bool from_the_last) {
  std::vector<Pending> pendings;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t at = from_the_last ? values.size() - 1 - i : i;
    const Key key(static_cast<std::int64_t>(at));
    pendings.push_back(kv.pushpull(key, tensor(values[at]), tensor(values[at])));
  }
  return pendings;
}

/// All calls end before the error of one leaves this function, because the tensors end with it.
std::string finished(const std::vector<Pending>& pendings, const std::vector<Floats>& values) {
  std::exception_ptr failure;
  for (const Pending& pending : pendings) {
    try {
      pending.wait();
    } catch (const Error&) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  const Floats right(values[0].size(), 3.0F);
  return std::ranges::count(values, right) == std::ssize(values) ? "right" : "wrong";
}

}  // namespace

TEST_CASE("values have the same bits whether they pass through shared memory or over connections") {
  int shared = 0;
  int over_connections = 0;
  const Said with = trained(shared);
  Said without;
  {
    const SmallFiles small;
    without = trained(over_connections);
  }
  CHECK(shared >= 2 * 3 * 2);  // at both ends of each link
  CHECK(over_connections == 0);
  CHECK(with == without);
  CHECK(with == Said(3, with[0]));
}

TEST_CASE("of the memory that was shared nothing is left behind") {
  const auto before = open_files();
  int shared = 0;
  trained(shared);
  CHECK(shared > 0);
  CHECK(shared_mappings() == 0);
  CHECK(open_files() == before);
}

TEST_CASE("more values than the shared memory holds are on their way at once") {
  LocalJob job({.workers = 2, .servers = 1});
  CHECK(job.run([](KVStore& kv) {
    constexpr std::size_t count = 1 << 20;  // 40 times 4 MiB, and 128 MiB are shared
    std::vector<Floats> values(40, Floats(count, 1.5F));
    // The workers begin with different ones: each waits for what the other has not sent yet.
    return finished(sum(kv, values, kv.rank() == 1), values);
  }) == Said(2, "right"));
}

TEST_CASE("calls of a worker far ahead of the others stay with it until they come") {
  const SmallFiles small;
  LocalJob job({.workers = 2, .servers = 1, .most_waiting_bytes = 1 << 20});
  std::promise<void> seen;
  std::atomic<std::uint64_t> sent{0};
  CHECK(job.run([&](KVStore& kv) {
    std::vector<Floats> values = many_values();
    if (kv.rank() == 1) seen.get_future().wait();
    const std::vector<Pending> pendings = sum(kv, values, false);
    if (kv.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      sent = kv.counters().bytes_between_nodes;
      seen.set_value();
    }
    return finished(pendings, values);
  }) == Said(2, "right"));
  constexpr std::uint64_t mebibyte = 1 << 20;
  CHECK(sent >= mebibyte);
  CHECK(sent < 8 * mebibyte);
}

TEST_CASE("a worker that makes many small calls far ahead of the others is not heard for a while") {
  const Logged log;
  LocalJob job({.workers = 2, .servers = 1, .most_waiting_requests = 100});
  std::promise<void> made;
  CHECK(job.run([&](KVStore& kv) {
    std::vector<Floats> values(300, Floats{1.5F});
    if (kv.rank() == 1) made.get_future().wait();
    const std::vector<Pending> pendings = sum(kv, values, false);
    if (kv.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      made.set_value();
    }
    return finished(pendings, values);
  }) == Said(2, "right"));
  CHECK_THAT(log.text(), Catch::Contains("worker 0 is far ahead"));
}

TEST_CASE("a worker that others wait for is heard, however far ahead it is") {
  const SmallFiles small;
  LocalJob job({.workers = 2, .servers = 1, .most_waiting_bytes = 1 << 20});
  CHECK(job.run([](KVStore& kv) {
    std::vector<Floats> values = many_values();
    return finished(sum(kv, values, kv.rank() == 1), values);
  }) == Said(2, "right"));
}
