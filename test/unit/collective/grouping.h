#pragma once
#include <cstdint>
#include <optional>

#include "collective/device_group.h"
#include "collective/grouping.h"
#include "cuda/gpu.h"
#include "cuda/nccl_comm.h"
#include "cuda/nccl_library.h"
#include "shm/group_board.h"

/// The group of a rank on a GPU of its own. It says from some batch on that it has it.
class TestGrouping final : public tutti::collective::Grouping {
 public:
  TestGrouping(tutti::shm::GroupBoard board, const tutti::collective::DeviceGroup::Layout& layout,
               std::uint64_t from)
      : board_(board), layout_(layout), from_(from) {}

  /// Blocks until all ranks of the node have come. With the GPU's context current.
  void connect(const tutti::cuda::Gpu& gpu);
  /// Returns how many chunks this rank has moved by launches.
  std::uint64_t disconnect();

  void enter(std::uint64_t sequence) override;
  tutti::collective::DeviceGroup* find(std::uint64_t sequence) override;

 private:
  const tutti::shm::GroupBoard board_;
  const tutti::collective::DeviceGroup::Layout layout_;
  const std::uint64_t from_;
  std::optional<tutti::cuda::NcclComm> comm_;
  std::optional<tutti::collective::DeviceGroup> group_;
};
