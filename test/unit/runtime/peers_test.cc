// Calls between two ranks, beside sums, where ranks are threads.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "thread_world.h"

using namespace tutti;
using namespace tutti::runtime;

namespace {

Tensor over(std::vector<float>& data) {
  return {data.data(), {static_cast<std::int64_t>(data.size())}, DType::f32};
}

Pending sum(Session& session, const Key& key, std::vector<float>& data) {
  const auto list = session.new_calls(1, "sum");
  TensorCall& call = list->calls[0];
  call.key = key;
  call.signature.shape = over(data).shape();
  call.ins = call.outs = over(data);
  return session.submit(list);
}

/// The numbers that one rank sends to the others, and gets from them, in a round.
struct Mail {
  Mail(int ranks, int rank, int round)
      : out(static_cast<std::size_t>(ranks)), in(static_cast<std::size_t>(ranks)) {
    for (std::size_t other = 0; other < out.size(); ++other) {
      const auto to = static_cast<int>(other);
      out[other].assign(count(rank, to), value(rank, to, round));
      in[other].resize(count(to, rank));
    }
  }
  static std::size_t count(int from, int to) {
    return static_cast<std::size_t>((from * 7 + to * 3) % 5) * 20'000 + 1;
  }
  static float value(int from, int to, int round) {
    return static_cast<float>(from * 10'000 + to * 100 + round);
  }
  std::size_t wrong(int rank, int round) const {
    std::size_t wrong = 0;
    for (std::size_t from = 0; from < in.size(); ++from) {
      if (static_cast<int>(from) == rank) continue;
      const float right = value(static_cast<int>(from), rank, round);
      wrong += std::any_of(in[from].begin(), in[from].end(), [&](float is) { return is != right; });
    }
    return wrong;
  }

  std::vector<std::vector<float>> out, in;
};

}  // namespace

TEST_CASE("ranks as threads send to each other while they sum, in an order of their own") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  for (const int size : {2, 3, 5}) {
    std::atomic<std::size_t> wrong{0};
    with_sessions(size, {}, [&](Session& session) {
      std::mt19937 own(seed + static_cast<unsigned>(session.rank()));
      for (int round = 0; round < 15; ++round) {
        Mail mail(size, session.rank(), round);
        std::vector<float> summed(1000, 1);
        std::vector<int> others(static_cast<std::size_t>(size));
        std::iota(others.begin(), others.end(), 0);
        std::shuffle(others.begin(), others.end(), own);
        std::vector<Pending> pending;
        for (const int other : others) {
          if (other == session.rank()) {
            pending.push_back(sum(session, "sum", summed));
            continue;
          }
          const auto at = static_cast<std::size_t>(other);
          pending.push_back(session.send(over(mail.out[at]), other, round % 3));
          pending.push_back(session.receive(over(mail.in[at]), other, round % 3, nullptr));
        }
        std::shuffle(pending.begin(), pending.end(), own);
        for (const Pending& each : pending) each.wait();
        wrong += mail.wrong(session.rank(), round);
        wrong += summed != std::vector<float>(1000, static_cast<float>(size)) ? 1 : 0;
      }
    });
    INFO("ranks " << size);
    CHECK(wrong == 0);
  }
}

TEST_CASE("memory for tensors between two ranks is counted once they use it") {
  with_sessions(2, {}, [&](Session& session) {
    std::vector<float> data(10);
    sum(session, "first", data).wait();
    const std::uint64_t before = session.counters().buffer_bytes;
    // Otherwise the elements could arrive before the receiver reads its counters.
    sum(session, "second", data).wait();
    const Pending call = session.rank() == 0 ? session.send(over(data), 1, 0)
                                             : session.receive(over(data), 0, 0, nullptr);
    call.wait();
    const std::uint64_t more = session.counters().buffer_bytes - before;
    const std::size_t frames = p2p::PairMemory::frame_ring_bytes;
    if (session.rank() == 0 && more != frames + p2p::PairMemory::data_ring_bytes) {
      throw Error(ErrorCode::internal, "the sender counts other memory");
    }
    if (session.rank() == 1 && more != frames) {
      throw Error(ErrorCode::internal, "the receiver counts other memory");
    }
  });
}
