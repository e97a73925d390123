// The ends of tensors on a GPU, on the stand-in: ranks are threads, and share one device.
#include "collective/device_ends.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <optional>
#include <string>

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
    // Earlier work of the program, which a slow machine is long at.
    stream_.copy(in_.data(), out_.data(), out_.size());
    stream_.copy_to_device(in_.data(), host_.data(), host_.span().size());
    ready_.record(stream_.handle());
  }

  TensorPart part() const {
    return {
        .ins = {&in_address_, 1}, .outs = {&out_address_, 1}, .count = count_, .ready = &ready_};
  }
  /// Whether it holds the sum over this many ranks.
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

/// The number of tensors, over this many ranks and batches, that are not the sum.
int wrong_sums(unsigned seed, int ranks, std::size_t batch_count) {
  const cuda::Gpu gpu(0);
  std::mt19937_64 shared(seed);
  Node node(ranks, small_tuning(shared));
  const cuda::ContextGuard context(gpu);
  // If the memory were not pinned, each copy would be done when it has been enqueued.
  const cuda::Registration pinned(gpu, node.own_staging());
  std::vector<std::vector<std::size_t>> counts(batch_count);
  for (auto& parts : counts) {
    for (std::size_t i = 0; i < 1 + shared() % 3; ++i) parts.push_back(1 + shared() % 3000);
  }
  std::atomic<int> wrong{0};
  node.run([&](Rank& rank) {
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
  });
  return wrong;
}

/// The number of wrong sums on a machine with these faults. The program's earlier work takes 0.1 s
/// a tensor, one tensor after the other. So a rank that does not wait for it copies inputs that are
/// not written yet, even if the scheduler holds the rank's thread back.
int wrong_sums_with(const std::string& faults) {
  const standin::Playing machine("h2d_delay=2e-3 d2h_delay=2e-3 d2d_delay=0.1", faults);
  return wrong_sums(1, 2, 2);
}

}  // namespace

TEST_CASE("ranks sum tensors on a GPU after the work that writes them, and copies overlap") {
  const auto seed = GENERATE(range(0U, 8U));
  const int ranks = 1 + static_cast<int>(seed % 5);
  CAPTURE(seed, ranks);
  const standin::Playing machine("h2d_delay=1e-4 d2h_delay=5e-5");
  CHECK(wrong_sums(seed, ranks, 12) == 0);
}

// Each in a process of its own, where the thread sanitizer looks on.

TEST_CASE("sums with all waits", "[.][no-race]") {
  CHECK(wrong_sums_with("") == 0);
}

TEST_CASE("sums whose copies wait for no event of a tensor", "[.][race]") {
  CHECK(wrong_sums_with("cuStreamWaitEvent#0=skip") > 0);
}

TEST_CASE("sums whose copies count as done at once", "[.][race]") {
  CHECK(wrong_sums_with("cuEventQuery#0=skip") > 0);
}

TEST_CASE("if the ends leave a wait out, sums are wrong, and the thread sanitizer reports it") {
  for (const std::string missing : {"sums whose copies wait for no event of a tensor",
                                    "sums whose copies count as done at once"}) {
    INFO(missing);
    const std::string said = standin::said_by(missing);
    INFO(said);
    CHECK(said.find("All tests passed") != std::string::npos);
    const bool is_reported = said.find("ThreadSanitizer: data race") != std::string::npos;
    CHECK(is_reported == standin::is_sanitized());
  }
  const std::string said = standin::said_by("sums with all waits");
  INFO(said);
  CHECK(said.find("ThreadSanitizer") == std::string::npos);
  CHECK(said.find("All tests passed") != std::string::npos);
}

TEST_CASE("ends whose copies do not end say so at the deadline") {
  const standin::Playing machine("", "cuMemcpyDtoHAsync#1=hang");
  const cuda::Gpu gpu(0);
  const cuda::ContextGuard context(gpu);
  auto& ends = standin::never_freed<DeviceEnds>(gpu);
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
