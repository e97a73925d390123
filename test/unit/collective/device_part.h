#pragma once
#include <deque>
#include <random>
#include <vector>

#include "collective/ends.h"
#include "cuda/event.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "scenario.h"

/// One rank's memory on its GPU for a scenario, and its batches with addresses. Streams of the
/// program's fill the inputs, some of them late.
class DevicePart {
 public:
  /// Needs the GPU's context to be current. All arguments outlive it. The scenario's parts have one
  /// input on each rank.
  DevicePart(const Scenario& scenario, int rank, const tutti::cuda::Gpu& gpu,
             tutti::collective::Ends& ends, std::mt19937_64& random);

  const std::vector<tutti::collective::Batch>& batches() const { return batches_; }
  /// Throws when an output of this rank differs, or an input has changed.
  void check() const;

 private:
  struct Memory {
    std::unique_ptr<tutti::cuda::DeviceMemory> memory;
    std::byte* begin = nullptr;
  };
  struct OnDevice {
    std::vector<const void*> ins;
    std::vector<void*> outs;
    std::unique_ptr<tutti::cuda::Event> ready;
  };
  std::byte* allocate(const Scenario::Tensors& tensors, std::size_t bytes);
  void place(const Scenario::Planned& plan, std::size_t part, OnDevice& at,
             std::mt19937_64& random);
  bool holds(const void* memory, const reference::Bytes& bytes) const;

  const Scenario& scenario_;
  const int rank_;
  const tutti::cuda::Gpu& gpu_;
  tutti::cuda::Stream stream_;
  std::deque<tutti::cuda::PinnedMemory> sources_;
  std::vector<std::unique_ptr<tutti::cuda::DeviceMemory>> memory_;
  std::vector<std::deque<OnDevice>> places_;  ///< by batch and part
  std::vector<tutti::collective::Batch> batches_;
};
