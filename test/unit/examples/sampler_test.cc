#include "dataset/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>

using dataset::part_of;
using dataset::Range;
using dataset::Sampler;

namespace {

std::vector<std::uint32_t> copy(std::span<const std::uint32_t> samples) {
  return {samples.begin(), samples.end()};
}

/// The batches of all workers in one step, one after another.
std::vector<std::uint32_t> together(const std::vector<Sampler>& workers, std::size_t step) {
  std::vector<std::uint32_t> all;
  for (const Sampler& worker : workers) {
    const auto batch = worker.batch(step);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

std::vector<Sampler> make_workers(std::size_t samples, std::size_t batch, int count,
                                  std::uint64_t epoch) {
  std::vector<Sampler> workers;
  for (int i = 0; i < count; ++i) {
    workers.emplace_back(Sampler::Sharding{
        .samples = samples, .batch_size = batch, .num_parts = count, .part_index = i, .seed = 3});
    workers.back().start_epoch(epoch);
  }
  return workers;
}

}  // namespace

TEST_CASE("parts follow their weights and leave nothing out") {
  const std::vector<int> weights{2, 1};
  CHECK(part_of(30, weights, 0) == Range{0, 20});
  CHECK(part_of(30, weights, 1) == Range{20, 30});
  CHECK(part_of(1, weights, 0) == Range{0, 0});
  CHECK(part_of(1, weights, 1) == Range{0, 1});
  CHECK(part_of(7, 3, 0).size() + part_of(7, 3, 1).size() + part_of(7, 3, 2).size() == 7);
}

TEST_CASE("shards are disjoint and their union is the training set") {
  const auto samples = GENERATE(1U, 7U, 96U, 100U, 1438U);
  const int count = GENERATE(1, 2, 3, 4, 8);
  const auto workers = make_workers(samples, 16, count, 5);
  std::vector<std::uint32_t> all;
  for (std::size_t step = 0; step < workers[0].steps(); ++step) {
    const auto batches = together(workers, step);
    all.insert(all.end(), batches.begin(), batches.end());
  }
  std::ranges::sort(all);
  REQUIRE(all.size() == samples);
  for (std::uint32_t i = 0; i < samples; ++i) REQUIRE(all[i] == i);
}

TEST_CASE("n workers see in each step what one with n times the batch sees") {
  const int count = GENERATE(2, 3, 5, 8);
  const auto workers = make_workers(1438, 16, count, 2);
  const auto one = make_workers(1438, 16 * static_cast<std::size_t>(count), 1, 2);
  REQUIRE(workers[0].steps() == one[0].steps());
  for (std::size_t step = 0; step < one[0].steps(); ++step) {
    CHECK(together(workers, step) == copy(one[0].batch(step)));
    CHECK(workers[0].global_batch_size(step) == one[0].batch(step).size());
  }
}

TEST_CASE("in the last step parts differ by one sample at most and may be empty") {
  const auto workers = make_workers(2 * 4 * 10 + 3, 10, 4, 0);
  REQUIRE(workers[0].steps() == 3);
  CHECK(workers[0].global_batch_size(2) == 3);
  std::vector<std::size_t> sizes;
  for (const Sampler& worker : workers) {
    CHECK(worker.batch(0).size() == 10);
    sizes.push_back(worker.batch(2).size());
  }
  std::ranges::sort(sizes);
  CHECK(sizes == std::vector<std::size_t>{0, 1, 1, 1});
}

TEST_CASE("every epoch has an order of its own, drawn from the seed") {
  Sampler a({.samples = 1000, .batch_size = 1000, .seed = 1});
  a.start_epoch(0);
  const auto first = copy(a.batch(0));
  a.start_epoch(1);
  CHECK(copy(a.batch(0)) != first);
  a.start_epoch(0);
  CHECK(copy(a.batch(0)) == first);
  Sampler b({.samples = 1000, .batch_size = 1000, .seed = 2});
  b.start_epoch(0);
  CHECK(copy(b.batch(0)) != first);
}

TEST_CASE("without samples there are no steps") {
  Sampler none({.samples = 0, .batch_size = 4});
  none.start_epoch(0);
  CHECK(none.steps() == 0);
}
