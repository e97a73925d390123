#include "grouping.h"

#include <thread>

using namespace tutti;
using shm::GroupBoard;

void TestGrouping::connect(const cuda::Gpu& gpu) {
  const cuda::NcclLibrary library;
  if (board_.is_first()) board_.set_id(cuda::make_nccl_id(library));
  while (!board_.has_id()) std::this_thread::yield();
  comm_.emplace(library, gpu, board_.id(), board_.local_index(), board_.local_size());
  group_.emplace(gpu, *comm_, layout_, shm::LaunchLog(board_.ring(), board_.is_first()));
}

std::uint64_t TestGrouping::disconnect() {
  const std::uint64_t chunks = group_->passed().gathers;
  group_.reset();
  comm_.reset();
  return chunks;
}

void TestGrouping::enter(std::uint64_t sequence) {
  if (sequence >= from_) board_.set(&GroupBoard::Member::ready, sequence);
}

collective::DeviceGroup* TestGrouping::find(std::uint64_t sequence) {
  return board_.holds(&GroupBoard::Member::ready, sequence) ? &*group_ : nullptr;
}
