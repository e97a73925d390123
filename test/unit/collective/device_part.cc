#include "device_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "tutti/shard.h"

using namespace tutti;
using namespace tutti::collective;

namespace {

/// Whether the ranks of the node may move it by launches.
bool may_group(const Scenario::Planned& plan) {
  const auto has_data = [](const Scenario::Tensors& one) { return !one.ins.empty(); };
  return plan.batch.kind == CollectiveKind::allreduce &&
         std::all_of(plan.tensors.begin(), plan.tensors.end(), [&](const auto& parts) {
           return std::all_of(parts.begin(), parts.end(), has_data);
         });
}

}  // namespace

DevicePart::DevicePart(const Scenario& scenario, int rank, const cuda::Gpu& gpu, Ends& ends,
                       std::mt19937_64& random)
    : scenario_(scenario), rank_(rank), gpu_(gpu), stream_(gpu) {
  for (const Scenario::Planned& plan : scenario.planned) {
    std::deque<OnDevice>& places = places_.emplace_back();
    Batch& batch = batches_.emplace_back(plan.batch_at(rank));
    batch.ends = &ends;
    batch.may_group = may_group(plan);
    const std::size_t own =
        batch.is_sharded() ? shard(batch.rows.whole, rank, batch.rows.ranks).begin : 0;
    for (std::size_t p = 0; p < batch.parts.size(); ++p) {
      OnDevice& at = places.emplace_back();
      place(plan, p, at, random);
      TensorPart& part = batch.parts[p];
      part.ins = at.ins;
      part.outs = at.outs;
      part.ready = at.ready.get();
      if (batch.kind == CollectiveKind::reduce_scatter) part.out_first = own;
      if (batch.kind == CollectiveKind::allgather) part.in_first = own;
    }
  }
}

std::byte* DevicePart::allocate(const Scenario::Tensors& tensors, std::size_t bytes) {
  memory_.push_back(std::make_unique<cuda::DeviceMemory>(gpu_, bytes + tensors.misalignment));
  return static_cast<std::byte*>(memory_.back()->data()) + tensors.misalignment;
}

void DevicePart::place(const Scenario::Planned& plan, std::size_t part, OnDevice& at,
                       std::mt19937_64& random) {
  const Scenario::Tensors& tensors = plan.tensors[static_cast<std::size_t>(rank_)][part];
  for (const reference::Bytes& in : tensors.ins) {
    std::byte* const memory = allocate(tensors, in.size());
    at.ins.push_back(memory);
    if (tensors.in_place) at.outs.push_back(memory);
    if (in.empty()) continue;
    const cuda::PinnedMemory& source = sources_.emplace_back(gpu_, in.size());
    std::memcpy(source.data(), in.data(), in.size());
    stream_.copy_to_device(memory, source.data(), in.size());
  }
  const std::size_t bytes = plan.result_at(rank_, part).size();
  while (at.outs.size() < tensors.outs) at.outs.push_back(allocate(tensors, bytes));
  if (random() % 4 == 0) {
    stream_.synchronize();
  } else {
    at.ready = std::make_unique<cuda::Event>(gpu_);
    at.ready->record(stream_.handle());
  }
}

bool DevicePart::holds(const void* memory, const reference::Bytes& bytes) const {
  if (bytes.empty()) return true;
  reference::Bytes held(bytes.size());
  stream_.copy_to_host(held.data(), memory, held.size());
  stream_.synchronize();
  return held == bytes;
}

void DevicePart::check() const {
  for (std::size_t b = 0; b < places_.size(); ++b) {
    const Scenario::Planned& plan = scenario_.planned[b];
    for (std::size_t p = 0; p < places_[b].size(); ++p) {
      const OnDevice& at = places_[b][p];
      const Scenario::Tensors& tensors = plan.tensors[static_cast<std::size_t>(rank_)][p];
      const auto fail = [&](const char* what) {
        throw std::runtime_error(fmt::format(
            "rank {}, batch {} ({} of {}, {}{}), part {} of {} elements: an {} is wrong", rank_, b,
            name(plan.batch.op), name(plan.batch.dtype), name(plan.batch.kind),
            batches_[b].may_group ? ", perhaps by the group" : "", p, plan.batch.parts[p].count,
            what));
      };
      for (void* const out : at.outs) {
        if (!holds(out, plan.result_at(rank_, p))) fail("output");
      }
      if (!tensors.in_place && !tensors.ins.empty() && !holds(at.ins[0], tensors.ins[0])) {
        fail("input");
      }
    }
  }
}
