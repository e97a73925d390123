#include "collective/allreduce.h"

#include <fmt/format.h>

namespace tutti::collective {

Allreduce::Allreduce(const topology::Topology& topology, const shm::NodeMemory& memory,
                     mpi::Communicator* communicator, const Tuning& tuning)
    : topology_(topology),
      memory_(memory),
      lanes_(topology.lanes()),
      cache_bytes_(tuning.cache_bytes),
      cut_(topology),
      block_(step_bytes) {
  if (!several_nodes() || !in_a_lane()) return;
  // Rounded up to a granule of the widest elements, and one for the chunk's own rounding.
  constexpr std::size_t rounding = 2 * 64 * 8;
  const auto lanes = static_cast<std::size_t>(lanes_);
  const auto ranks = static_cast<std::size_t>(topology.size);
  const auto columns = (topology.local_ranks().size() + lanes - 1) / lanes;
  const std::size_t slot = memory.layout().slot_bytes;
  const Exchange::Limits limits{slot / lanes + rounding, slot / ranks * columns + rounding};
  for (std::size_t stream = 0; stream < memory.layout().slots; ++stream) {
    exchanges_.push_back(std::make_unique<Exchange>(
        *communicator, topology.kin(topology.local_index()),
        static_cast<std::size_t>(topology.node()), topology::joins_of_uneven_nodes(topology),
        limits, static_cast<int>(stream)));
  }
}

void Allreduce::start(const Batch& batch, std::uint64_t sequence, std::uint64_t before) {
  batch_ = &batch;
  sequence_ = sequence;
  width_ = size_of(batch.dtype);
  cut_.start(batch, memory_.layout().slot_bytes, before);
  streaming_ = batch.exceeds(cache_bytes_ / static_cast<std::size_t>(memory_.local_size()));
  shared_ = all_in_arenas();
  in_ = sum_ = out_ = {};
  exchanged_ = 0;
  leave_out_stages();
}

/// A stage that is left out has passed all chunks for whoever waits for it.
void Allreduce::leave_out_stages() {
  const bool read_in_place = shared_ && gathers();
  if (shared_) leave_out_copy_in();
  if (delivers() || direct()) {
    out_.chunk = chunks().size();
    // Between nodes a lane's slice stays in the result's slot until the lane delivers it.
    if (!several_nodes() || !in_a_lane()) {
      memory_.raise(&shm::RankBlock::copied_out, chunks().end());
    }
  }
  if (gathers() && !several_nodes()) {
    // The put column is the result: nobody waits for it to be copied in.
    memory_.raise(&shm::RankBlock::copied_in, chunks().end());
    sum_.chunk = exchanged_ = chunks().size();
    if (read_in_place) memory_.raise(&shm::RankBlock::reduced, chunks().end());
  } else if (!in_a_lane()) {
    sum_.chunk = exchanged_ = chunks().size();
    memory_.raise(&shm::RankBlock::reduced, chunks().end());
  }
}

void Allreduce::leave_out_copy_in() {
  in_.chunk = chunks().size();
  memory_.raise(&shm::RankBlock::copied_in, chunks().end());
}

Progress Allreduce::step() {
  // The later stages first: they free what the earlier ones wait for.
  return end_of_step(copy_out_some() || exchange_some() || sum_some() || copy_in_some());
}

Progress Allreduce::end_of_step(bool moved) const {
  const Progress progress = moved ? Progress::moved : Progress::waiting;
  for (const std::uint64_t passed : {in_.chunk, sum_.chunk, exchanged_, out_.chunk}) {
    if (passed < chunks().size()) return progress;
  }
  if (!shared_) return Progress::done;
  // Others may still read this rank's inputs, or write its outputs.
  const auto last_use = gathers() ? &shm::RankBlock::copied_out : &shm::RankBlock::reduced;
  return memory_.least(last_use) >= chunks().end() ? Progress::done : progress;
}

bool Allreduce::all_in_arenas() const {
  for (int local = 0; local < memory_.local_size(); ++local) {
    if (memory_.descriptor(local, sequence_).pieces == 0) return false;
  }
  return true;
}

std::uint64_t Allreduce::bytes_sent() const {
  std::uint64_t sum = 0;
  for (const auto& exchange : exchanges_) sum += exchange->bytes_sent();
  return sum;
}

std::string Allreduce::describe() const {
  const auto late = [&](shm::Flag shm::RankBlock::*flag, std::uint64_t chunk) {
    return late_ranks(topology_, memory_, flag, chunks().number(chunk) + 1);
  };
  std::string text = fmt::format("{} chunks, here copied in {}, summed {}, exchanged {}, out {}",
                                 chunks().size(), in_.chunk, sum_.chunk, exchanged_, out_.chunk);
  if (shared_ && exchanged_ == chunks().size()) {
    return fmt::format("{}; not done with their slices: {}", text,
                       late(&shm::RankBlock::reduced, chunks().size() - 1));
  }
  for (std::uint64_t chunk = exchanged_; chunk < sum_.chunk; ++chunk) {
    text += "; " + exchange(chunk).describe();
  }
  if (out_.chunk < sum_.chunk) {
    text += fmt::format("; chunk {} not reduced by {}", out_.chunk,
                        late(&shm::RankBlock::reduced, out_.chunk));
  }
  if (!shared_ && sum_.chunk < in_.chunk) {
    text += fmt::format("; chunk {} not copied in by {}", sum_.chunk,
                        late(&shm::RankBlock::copied_in, sum_.chunk));
  }
  return text;
}

}  // namespace tutti::collective
