// The ends of tensors on a GPU, on the stand-in: ranks are threads, and share one device.
#include "collective/device_ends.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <optional>

#include "cuda/memory.h"
#include "node.h"
#include "unit/cuda/machine.h"

using namespace std::chrono_literals;
using namespace tutti;
using namespace tutti::collective;

namespace {

/// Small chunks, so that slots are used again and again.
Tuning small_tuning(std::mt19937_64& random) {
  Tuning tuning;
  tuning.device_slice_bytes = std::size_t{64} << random() % 7;
  tuning.device_slots = 1 + random() % 4;
  return tuning;
}

float value_of(int rank, std::size_t tensor, std::size_t element) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 31 + tensor * 7 + element) % 100);
}

/// A tensor of one rank on the device, with work of the program's before and after it.
class OnDevice {
 public:
  OnDevice(const cuda::Gpu& gpu, int rank, std::size_t number, std::size_t count)
      : stream_(gpu),
        ready_(gpu),
        host_(gpu, count * sizeof(float)),
        in_(gpu, count * sizeof(float)),
        out_(gpu, count * sizeof(float)),
        in_address_(in_.data()),
        out_address_(out_.data()),
        number_(number),
        count_(count) {
    for (std::size_t i = 0; i < count; ++i) values()[i] = value_of(rank, number, i);
    stream_.copy_to_device(in_.data(), host_.data(), host_.span().size());
    ready_.record(stream_.handle());
  }

  TensorPart part() const {
    return {
        .ins = {&in_address_, 1}, .outs = {&out_address_, 1}, .count = count_, .ready = &ready_};
  }
  /// Whether it holds the sum over so many ranks.
  bool is_sum(int ranks) const {
    stream_.copy_to_host(host_.data(), out_.data(), host_.span().size());
    stream_.synchronize();
    for (std::size_t i = 0; i < count_; ++i) {
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += value_of(rank, number_, i);
      if (values()[i] != sum) return false;
    }
    return true;
  }

 private:
  float* values() const { return reinterpret_cast<float*>(host_.data()); }

  cuda::Stream stream_;
  cuda::Event ready_;
  cuda::PinnedMemory host_;
  cuda::DeviceMemory in_;
  cuda::DeviceMemory out_;
  const void* in_address_;
  void* out_address_;
  std::size_t number_;
  std::size_t count_;
};

}  // namespace

TEST_CASE("ranks sum tensors on a GPU behind the work that writes them, and copies overlap") {
  const auto seed = GENERATE(range(0U, 8U));
  const int ranks = 1 + static_cast<int>(seed % 5);
  CAPTURE(seed, ranks);
  const standin::Playing machine("h2d_delay=1e-4 d2h_delay=5e-5");
  std::mt19937_64 shared(seed);
  Node node(ranks, small_tuning(shared));
  std::vector<std::vector<std::size_t>> counts(12);
  for (auto& parts : counts) {
    for (std::size_t i = 0; i < 1 + shared() % 3; ++i) parts.push_back(1 + shared() % 3000);
  }
  const cuda::Gpu gpu(0);
  std::atomic<int> wrong{0};
  REQUIRE_NOTHROW(node.run([&](Rank& rank) {
    cuda::set_current(gpu);
    DeviceEnds ends(gpu);
    std::deque<OnDevice> tensors;
    std::vector<Batch> batches;
    for (const auto& parts : counts) {
      Batch& batch = batches.emplace_back();
      batch.number = batches.size() - 1;
      batch.ends = &ends;
      for (const std::size_t count : parts) {
        batch.parts.push_back(tensors.emplace_back(gpu, rank.index, tensors.size(), count).part());
        batch.whole_bytes += count * sizeof(float);
      }
    }
    rank.driver.run(batches);
    for (const OnDevice& tensor : tensors) wrong += tensor.is_sum(ranks) ? 0 : 1;
    if (!ends.drain(base::Clock::now() + 20s)) ++wrong;
  }));
  CHECK(wrong == 0);
}

TEST_CASE("ends whose copies do not end say so at the deadline") {
  const standin::Playing machine("", "cuMemcpyDtoHAsync#1=hang");
  const cuda::Gpu gpu(0);
  const cuda::ContextGuard context(gpu);
  // A hanging stream is never destroyed.
  auto& ends = *new DeviceEnds(gpu);
  const cuda::DeviceMemory memory(gpu, 64);
  const cuda::PinnedMemory staging(gpu, 64);
  const void* const in = memory.data();
  Batch batch;
  TensorPart& part = batch.parts.emplace_back();
  part.ins = {&in, 1};
  part.count = 16;
  ends.start(batch);
  const Ends::PieceIn piece{{0, 16}, staging.data()};
  ends.copy_in(batch, {&piece, 1});
  const Ends::Mark mark = ends.mark(Ends::Side::in);
  CHECK_FALSE(ends.is_over(Ends::Side::in, mark));
  CHECK(ends.is_over(Ends::Side::out, ends.mark(Ends::Side::out) - 1));
  CHECK_FALSE(ends.drain(base::Clock::now()));
}
