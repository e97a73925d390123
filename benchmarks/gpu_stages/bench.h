#pragma once
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cuda/gpu.h"

namespace tutti::bench::gpu {

/// A part measures with these sizes, and prints its figures here. The GPU's context is current.
struct Bench {
  const cuda::Gpu& gpu;
  std::vector<std::size_t> sizes;    ///< bytes
  double seconds = 0;                ///< for each figure
  std::vector<std::size_t> sources;  ///< how many are summed
  std::string memory;                ///< the one kind of host memory that is copied; empty: each
  /// A part calls it when all is ready to be measured: processes that use one GPU at once meet
  /// here.
  std::function<void()> meet;
  /// Gets a row as soon as it is measured: a run that is ended keeps what it had.
  std::function<void(const nlohmann::ordered_json&)> print;
};

/// The median of how many seconds `work` takes. It is run for `seconds`, at least three times,
/// after a run that does not count.
double median_seconds(double seconds, const std::function<void()>& work);

/// Copies between host and device, each way and both at once, from every kind of host memory.
void measure_copies(const Bench& bench);
/// How long the caller is held up by calls that enqueue or ask, and how soon work is known to be
/// done.
void measure_calls(const Bench& bench);
/// Sums of several sources, on the device.
void measure_kernels(const Bench& bench);
/// As many processes as sources sum a shard each on the host: rates are those of the whole.
void measure_host_sums(const Bench& bench);
/// How long it takes to pin memory, and to let it go.
void measure_pinning(const Bench& bench);

}  // namespace tutti::bench::gpu
