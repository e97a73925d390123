// Which thread moves a call: the one that waits for it, or the communication thread meanwhile.
#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/session.h"
#include "thread_world.h"

using namespace tutti;
using namespace tutti::runtime;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<CallList> sum_of(Session& session, const Key& key, std::vector<float>& data) {
  const Tensor tensor(data.data(), {static_cast<std::int64_t>(data.size())}, DType::f32);
  auto list = session.new_calls(1, "sum");
  TensorCall& call = list->calls[0];
  call.key = key;
  call.signature = {};
  call.signature.shape = tensor.shape();
  call.priority = 0;
  call.ins = tensor;
  call.outs = tensor;
  return list;
}

/// How often the communication threads of all ranks, which are threads of this process, have slept.
std::uint64_t sleeps() {
  std::uint64_t all = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream name(task.path() / "comm");
    std::string word;
    if (!(name >> word) || word != "tutti-exec") continue;
    std::ifstream status(task.path() / "status");
    while (status >> word && word != "voluntary_ctxt_switches:") {
    }
    std::uint64_t count = 0;
    if (status >> count) all += count;
  }
  return all;
}

}  // namespace

TEST_CASE("a rank that submits and then computes finds the call done") {
  const std::size_t count = GENERATE(1U, 4096U, 40'000U, 400'000U);
  constexpr int rounds = 40;
  CAPTURE(count);
  std::atomic<int> late{0};
  std::atomic<int> wrong{0};
  std::barrier all(2);
  with_sessions(2, Options{}, [&](Session& session) {
    std::vector<float> values(count);
    for (int round = 0; round < rounds; ++round) {
      values.assign(count, static_cast<float>(session.rank() + 1));
      // Either rank may be the last to come, or both come at once.
      const bool waits_first = round % 3 < 2 && session.rank() == round % 3;
      if (waits_first) all.arrive_and_wait();
      const Pending sum = session.submit(sum_of(session, "w", values));
      if (!waits_first) all.arrive_and_wait();
      const auto deadline = base::Clock::now() + 20s;
      while (!sum.done() && base::Clock::now() < deadline) {
      }
      late += sum.done() ? 0 : 1;
      sum.wait();
      wrong += values == std::vector<float>(count, 3) ? 0 : 1;
      all.arrive_and_wait();
    }
  });
  CHECK(late == 0);
  CHECK(wrong == 0);
}

TEST_CASE("calls that their threads wait for at once leave the communication thread asleep") {
  const std::size_t count = GENERATE(1U, 4096U);
  constexpr int warm_up = 200;  ///< until the order is replayed
  constexpr int rounds = 2000;
  CAPTURE(count);
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::barrier all(2);
  const auto start = base::Clock::now();
  with_sessions(2, Options{}, [&](Session& session) {
    std::vector<float> values(count);
    const auto sum = [&] { session.submit_to_wait(sum_of(session, "w", values)).wait(); };
    for (int round = 0; round < warm_up; ++round) sum();
    all.arrive_and_wait();
    if (session.rank() == 0) before = sleeps();
    all.arrive_and_wait();
    for (int round = 0; round < rounds; ++round) sum();
    all.arrive_and_wait();
    if (session.rank() == 0) after = sleeps();
    all.arrive_and_wait();
  });
  // Each session's communication thread wakes by itself after 100 ms.
  const auto by_itself = static_cast<std::uint64_t>(2 * ((base::Clock::now() - start) / 100ms));
  CHECK(after - before < rounds / 5 + by_itself);
}
