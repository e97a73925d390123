#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/allreduce/pattern.h"
#include "tutti/kvstore.h"

namespace tutti::bench {

/// Cuts this many elements into as many tensors as ResNet-50 has parameters, in their proportions.
/// Each has at least one element.
std::vector<std::size_t> like_resnet50(std::size_t count);

/// Tensors that all workers push and pull, and a check of the results.
class Exchange {
 public:
  /// Keeps a reference to the store.
  Exchange(KVStore& store, const std::string& name, const std::vector<std::size_t>& counts);

  std::size_t keys() const { return keys_.size(); }
  std::size_t bytes() const { return in_.size() * sizeof(float); }

  /// Writes other numbers in each turn, and removes the last ones from the outputs.
  void fill(std::uint64_t turn);
  /// Blocks until this worker has all sums.
  void run() { store_.pushpull(keys_, ins_, outs_).wait(); }
  /// The number of wrong elements after `run`.
  std::size_t wrong(std::uint64_t turn) const;

 private:
  KVStore& store_;
  const Pattern pattern_;
  std::vector<float> in_, out_;
  std::vector<Key> keys_;
  std::vector<Values> ins_, outs_;
};

/// A value that all workers of an asynchronous store update as fast as they can.
class Updates {
 public:
  /// Collective. Keeps a reference to the store.
  Updates(KVStore& store, const std::string& name, std::size_t count);

  std::size_t bytes() const { return weights_.size() * sizeof(float); }
  /// Pushes a gradient of ones, and takes the value afterwards. Blocks.
  void run();
  std::uint64_t done() const { return done_; }
  /// The number of wrong elements of the value after this many updates by all workers, which have
  /// ended.
  std::size_t wrong(std::uint64_t all);

 private:
  KVStore& store_;
  std::vector<float> gradient_, weights_;
  std::vector<Key> keys_;
  std::vector<Values> ins_, outs_;
  std::uint64_t done_ = 0;
};

}  // namespace tutti::bench
