#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dataset {

/// The elements [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Part `index` of `count` elements, which are cut in order and in proportion to positive weights.
/// The parts are disjoint, cover everything, and differ from the exact proportion by less than one
/// element.
Range part_of(std::size_t count, std::span<const int> weights, std::size_t index);
/// Does the same with equal weights.
Range part_of(std::size_t count, int parts, int index);

/// Decides which worker trains on which samples.
///
/// Each epoch shuffles all samples, in an order that depends only on the seed and the epoch's
/// number and so is the same on all workers. The order is cut into global batches of `batch_size`
/// times `num_parts` samples; the last one has what remains. Each global batch is cut evenly among
/// the workers, in their order. So n workers with batches of b use in step k the samples that one
/// worker with batches of n·b uses in step k. In the last step parts differ by at most one sample.
/// A worker may have none; it then takes part with gradients of zero.
class Sampler {
 public:
  struct Sharding {
    std::size_t samples = 0;
    std::size_t batch_size = 1;  ///< of one worker
    int num_parts = 1;
    int part_index = 0;
    std::uint64_t seed = 0;
  };

  explicit Sampler(const Sharding& sharding);

  /// Call it before `batch`.
  void start_epoch(std::uint64_t epoch);
  /// Steps in an epoch; the same on all workers.
  std::size_t steps() const;
  /// This worker's samples in a step of the epoch, and the number of samples of all workers
  /// together.
  std::span<const std::uint32_t> batch(std::size_t step) const;
  std::size_t global_batch_size(std::size_t step) const;

 private:
  Sharding sharding_;
  std::vector<std::uint32_t> order_;
};

}  // namespace dataset
