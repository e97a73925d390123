#pragma once
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cuda/gpu.h"

namespace tutti::bench::gpu {

/// The sizes with which a part measures, and the function by which it prints its figures. The GPU's
/// context is current.
struct Bench {
  const cuda::Gpu& gpu;
  std::vector<std::size_t> sizes;    ///< bytes
  double seconds = 0;                ///< for each figure
  std::vector<std::size_t> sources;  ///< how many are summed
  std::string memory;                ///< the one kind of host memory that is copied; empty: each
  /// A part calls this when everything is ready to be measured. Several processes that use one GPU
  /// meet here.
  std::function<void()> meet;
  /// Gets a row as soon as it is measured, so that an interrupted run keeps its rows.
  std::function<void(const nlohmann::ordered_json&)> print;
};

/// The median of the seconds that `work` takes. It runs for `seconds`, at least three times, after
/// one run that does not count.
double median_seconds(double seconds, const std::function<void()>& work);

/// Copies between host and device, each way and both at once, from every kind of host memory.
void measure_copies(const Bench& bench);
/// Measures how long calls that enqueue or query hold the caller up, and how soon the caller knows
/// that work is done.
void measure_calls(const Bench& bench);
/// Sums of several sources, on the device.
void measure_kernels(const Bench& bench);
/// As many processes as sources sum one shard each on the host. The rates are those of the whole.
void measure_host_sums(const Bench& bench);
/// Measures how long it takes to pin memory, and to unpin it.
void measure_pinning(const Bench& bench);

}  // namespace tutti::bench::gpu
