#include "dataset/sampler.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace dataset {

Range part_of(std::size_t count, std::span<const int> weights, std::size_t index) {
  const auto sum = [weights](std::size_t n) {
    return std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(n),
                           std::size_t{0},
                           [](std::size_t a, int b) { return a + static_cast<std::size_t>(b); });
  };
  const std::size_t total = sum(weights.size());
  if (total == 0) return {};
  return {count * sum(index) / total, count * sum(index + 1) / total};
}

Range part_of(std::size_t count, int parts, int index) {
  const auto n = static_cast<std::size_t>(parts);
  const auto i = static_cast<std::size_t>(index);
  return {count * i / n, count * (i + 1) / n};
}

Sampler::Sampler(const Sharding& sharding) : sharding_(sharding), order_(sharding.samples) {}

void Sampler::start_epoch(std::uint64_t epoch) {
  std::iota(order_.begin(), order_.end(), 0U);
  // This does not use std::shuffle, because its result differs between standard libraries.
  std::seed_seq seed{sharding_.seed & 0xffffffffU, sharding_.seed >> 32, epoch};
  std::mt19937_64 random(seed);
  for (std::size_t left = order_.size(); left > 1; --left) {
    std::swap(order_[left - 1], order_[random() % left]);
  }
}

std::size_t Sampler::steps() const {
  const std::size_t global = sharding_.batch_size * static_cast<std::size_t>(sharding_.num_parts);
  return (order_.size() + global - 1) / global;
}

std::size_t Sampler::global_batch_size(std::size_t step) const {
  const std::size_t global = sharding_.batch_size * static_cast<std::size_t>(sharding_.num_parts);
  return std::min(global, order_.size() - step * global);
}

std::span<const std::uint32_t> Sampler::batch(std::size_t step) const {
  const std::size_t global = sharding_.batch_size * static_cast<std::size_t>(sharding_.num_parts);
  const Range mine = part_of(global_batch_size(step), sharding_.num_parts, sharding_.part_index);
  return std::span(order_).subspan(step * global + mine.begin, mine.size());
}

}  // namespace dataset
