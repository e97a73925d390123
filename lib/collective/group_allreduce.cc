#include "collective/group_allreduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/failure.h"

namespace tutti::collective {

using observe::Stage;
using Launch = shm::LaunchLog::Launch;

GroupAllreduce::GroupAllreduce(const topology::Topology& topology, const shm::NodeMemory& memory,
                               const Lane& lane, const Site& site)
    : topology_(topology),
      memory_(memory),
      site_(site),
      lane_(lane),
      layout_(topology),
      scatter_(memory.layout().slots),
      sum_(memory.layout().slots),
      up_(memory.layout().slots),
      gather_(memory.layout().slots) {}

void GroupAllreduce::start(const Batch& batch, DeviceGroup& group, std::uint64_t before) {
  batch_ = &batch;
  group_ = &group;
  recorder_.set_batch(batch.epoch, batch.number);
  width_ = size_of(batch.dtype);
  layout_.start(batch, memory_.layout().slot_bytes, before);
  first_ = group_->passed().started;
  group_->passed().started += chunks().size();
  prepared_ = exchanged_ = 0;
  complete_ = nullptr;
  for (CopyStage* const stage : {&scatter_, &sum_, &up_, &gather_}) stage->start();
}

Progress GroupAllreduce::step() {
  const bool driven = drive_device();
  const bool exchanged = exchange_some();
  if (gather_.over() == chunks().size()) return Progress::done;
  return driven || exchanged ? Progress::moved : Progress::waiting;
}

bool GroupAllreduce::drive_device() {
  // The later stages come first, because they free the memory for which the earlier ones wait.
  bool moved = raise(gather_, group_->outputs(), &shm::RankBlock::copied_out, Stage::copy_out);
  moved |= launch_some();
  moved |= raise_reduced();
  if (raise(scatter_, group_->launches(), &shm::RankBlock::copied_in, Stage::copy_in)) {
    recorder_.begin(Stage::sum, scatter_.over() - 1);
    moved = true;
  }
  return prepare_some() || moved;
}

/// Tells the node for how many chunks the inputs are complete on this rank.
bool GroupAllreduce::prepare_some() {
  awaits_input_ = false;
  if (prepared_ == chunks().size()) return false;
  // The batch before this one comes first.
  if (memory_.mine().prepared.load() != ordinal(prepared_)) return false;
  const std::uint64_t before = prepared_;
  while (prepared_ < chunks().size() && is_input_complete(prepared_)) ++prepared_;
  awaits_input_ = prepared_ < chunks().size();
  if (prepared_ == before) return false;
  memory_.raise(&shm::RankBlock::prepared, ordinal(prepared_));
  return true;
}

bool GroupAllreduce::is_input_complete(std::uint64_t chunk) {
  bool complete = true;
  for_each_part_range(*batch_, chunks().range(chunk), [&](const PartRange& part_range) {
    const cuda::Event* const ready = batch_->parts[part_range.part].ready;
    if (!complete || ready == nullptr || ready == complete_) return;
    complete = ready->is_done();
    if (complete) complete_ = ready;
  });
  return complete;
}

bool GroupAllreduce::launch_some() {
  shm::LaunchLog& log = group_->log();
  if (log.is_first()) return launch_first();
  const std::optional<Launch> next = log.next();
  if (!next || next->chunk < chunks().number(0) || next->chunk >= chunks().end()) return false;
  launch(*next);
  log.advance();
  return true;
}

bool GroupAllreduce::launch_first() {
  const bool gathers = may_gather();
  if (!gathers && !may_scatter()) return false;
  const Launch next =
      gathers ? Launch{chunks().number(gather_.begun.chunk), shm::LaunchLog::Kind::gather}
              : Launch{chunks().number(scatter_.begun.chunk), shm::LaunchLog::Kind::scatter};
  group_->log().append(next);
  memory_.ring_peers();
  launch(next);
  return true;
}

bool GroupAllreduce::may_scatter() const {
  const std::uint64_t chunk = scatter_.begun.chunk;
  return chunk < chunks().size() && group_->passed().scatters == ordinal(chunk) &&
         memory_.least(&shm::RankBlock::prepared) > ordinal(chunk) &&
         is_slot_free(memory_, &shm::RankBlock::copied_out, chunks().number(chunk));
}

bool GroupAllreduce::may_gather() const {
  const std::uint64_t chunk = gather_.begun.chunk;
  return chunk < chunks().size() && group_->passed().gathers == ordinal(chunk) &&
         memory_.least(&shm::RankBlock::reduced) > chunks().number(chunk);
}

void GroupAllreduce::launch(const Launch& launch) {
  const bool scatters = launch.kind == shm::LaunchLog::Kind::scatter;
  const std::uint64_t next = scatters ? scatter_.begun.chunk : gather_.begun.chunk;
  base::check(launch.chunk == chunks().number(next), "the node launches chunks in order");
  if (scatters) {
    scatter();
  } else {
    gather();
  }
}

bool GroupAllreduce::is_copying() const {
  return awaits_input_ || scatter_.is_under_way() || sum_.is_under_way() || up_.is_under_way() ||
         gather_.is_under_way();
}

std::string GroupAllreduce::describe() const {
  const std::uint64_t size = chunks().size();
  std::string text = fmt::format(
      "{} chunks over NCCL between ranks {}, here scattered {}, summed {}, gathered {}", size,
      fmt::join(topology_.local_ranks(), ", "), scatter_.over(), sum_.over(), gather_.over());
  if (awaits_input_) text += fmt::format("; the program's work before chunk {} goes on", prepared_);
  const auto under_way = [&](const CopyStage& stage, std::string_view what) {
    if (stage.is_under_way()) text += fmt::format("; {} of chunk {} goes on", what, stage.over());
  };
  under_way(scatter_, "the launch that scatters the ranks' inputs");
  if (!scatter_.is_under_way()) under_way(sum_, "the sum");
  for (std::uint64_t chunk = exchanged_; exchanges() && chunk < sum_.over(); ++chunk) {
    text += "; " + exchange(chunk).describe();
  }
  under_way(up_, "the copy to the GPU");
  under_way(gather_, "the launch that gathers the sums");
  const std::uint64_t gathered = gather_.begun.chunk;
  if (gathered < scatter_.begun.chunk) {
    text += late_chunk(topology_, memory_, &shm::RankBlock::reduced,
                       {gathered, chunks().number(gathered)}, "not reduced");
  }
  const std::uint64_t scattered = scatter_.begun.chunk;
  if (scattered == size) return text;
  return text + late_chunk(topology_, memory_, &shm::RankBlock::prepared,
                           {scattered, ordinal(scattered)}, "not there for a launch");
}

}  // namespace tutti::collective
