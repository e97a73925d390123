#include "runtime/session.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "thread_world.h"

using namespace tutti;
using namespace tutti::runtime;

namespace {

TensorCall sum_of(const Key& key, std::vector<float>& data, int priority = 0) {
  const Tensor tensor(data.data(), {static_cast<std::int64_t>(data.size())}, DType::f32);
  TensorCall call;
  call.key = key;
  call.signature.kind = coordinator::Kind::allreduce;
  call.signature.dtype = DType::f32;
  call.signature.shape = tensor.shape();
  call.priority = priority;
  call.ins = tensor;
  call.outs = tensor;
  return call;
}

Pending submit(Session& session, TensorCall call) {
  std::vector<TensorCall> calls;
  calls.push_back(std::move(call));
  return session.submit(std::move(calls), "a test's sum");
}

}  // namespace

TEST_CASE("ranks as threads sum tensors in a random order of their own") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  for (const int size : {1, 2, 3, 5, 8}) {
    std::atomic<std::size_t> wrong{0};
    with_sessions(size, Options{}, [&](Session& session) {
      std::mt19937 own(seed + static_cast<unsigned>(session.rank()));
      constexpr std::size_t keys = 40;
      std::vector<std::vector<float>> values(keys);
      for (std::size_t key = 0; key < keys; ++key) values[key].resize(key * key * 5);
      for (int round = 0; round < 10; ++round) {
        std::vector<std::size_t> order(keys);
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), own);
        std::vector<Pending> pending;
        for (const std::size_t key : order) {
          std::fill(values[key].begin(), values[key].end(),
                    static_cast<float>(session.rank() + round));
          pending.push_back(submit(session, sum_of(static_cast<int>(key), values[key])));
        }
        for (const Pending& each : pending) each.wait();
        const auto expected = static_cast<float>(size * (size - 1) / 2 + round * size);
        for (const auto& value : values) {
          for (const float element : value) wrong += element != expected ? 1 : 0;
        }
      }
    });
    INFO("ranks " << size);
    CHECK(wrong == 0);
  }
}

TEST_CASE("barriers and joins meet every rank") {
  with_sessions(3, Options{}, [&](Session& session) {
    for (int i = 0; i < 20; ++i) session.barrier();
    std::vector<float> value{1};
    if (session.rank() != 2) submit(session, sum_of("k", value)).wait();
    session.join();
  });
}
