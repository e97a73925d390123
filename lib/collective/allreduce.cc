#include "collective/allreduce.h"

#include <fmt/format.h>

namespace tutti::collective {
namespace {

/// If a batch's tensors are smaller than this on average, summing them together and copying the
/// sums out is faster than summing each by itself.
constexpr std::size_t worth_its_own_sum = 512;

}  // namespace

Allreduce::Allreduce(const topology::Topology& topology, const shm::NodeMemory& memory,
                     const Lane& lane, const Tuning& tuning)
    : topology_(topology),
      memory_(memory),
      lanes_(topology.lanes()),
      lane_(lane),
      cache_bytes_(tuning.cache_bytes),
      stores_(tuning.staging),
      layout_(topology) {}

void Allreduce::start(const Batch& batch, std::uint64_t sequence, std::uint64_t before) {
  batch_ = &batch;
  recorder_.set_batch(batch.epoch, batch.number);
  sequence_ = sequence;
  width_ = size_of(batch.dtype);
  layout_.start(batch, memory_.layout().slot_bytes, before);
  shared_ = all_in_arenas();
  // An output in an arena is not read next by the rank that writes it. With tensors as large as the
  // caches, non-temporal stores took 2, 4 and 8 ranks 16 to 23 % less time for such outputs, and 16
  // to 31 % more for private ones.
  const std::size_t each = cache_bytes_ / static_cast<std::size_t>(memory_.local_size());
  streaming_ = batch.exceeds(shared_ ? each / 4 * 3 : each);
  const std::size_t bytes_a_part = batch.bytes() / batch.parts.size();
  stores_.next_batch(bytes_a_part);
  sums_all_ = memory_.local_size() == 2 && !several_nodes() && !shared_ && !batch.is_sharded() &&
              bytes_a_part >= worth_its_own_sum;
  in_ = sum_ = out_ = {};
  exchanged_ = 0;
  leave_out_stages();
}

void Allreduce::leave_out_stages() {
  const bool read_in_place = shared_ && does_gather();
  left_out_.clear();
  if (shared_) {
    in_.chunk = chunks().size();
    leave_out(&shm::RankBlock::copied_in);
  }
  if (does_deliver() || direct()) {
    out_.chunk = chunks().size();
    // With several nodes a lane's slice stays in the result slot until the lane writes it out.
    if (!several_nodes() || !in_a_lane()) leave_out(&shm::RankBlock::copied_out);
  }
  if (does_gather() && !several_nodes()) {
    // The column that copy in puts there is the result: nobody waits for `copied_in`.
    leave_out(&shm::RankBlock::copied_in);
    sum_.chunk = exchanged_ = chunks().size();
    if (read_in_place) leave_out(&shm::RankBlock::reduced);
  } else if (!in_a_lane()) {
    sum_.chunk = exchanged_ = chunks().size();
    leave_out(&shm::RankBlock::reduced);
  }
}

/// A stage that is left out raises its flag for all chunks at once, for whoever waits for it, but
/// not before the earlier batches have passed that stage.
void Allreduce::leave_out(shm::Flag shm::RankBlock::*flag) {
  if (is_next(flag)) {
    memory_.raise(flag, chunks().end());
  } else {
    left_out_.push_back(flag);
  }
}

bool Allreduce::pass_left_out() {
  return std::erase_if(left_out_, [this](shm::Flag shm::RankBlock::*flag) {
           if (!is_next(flag)) return false;
           memory_.raise(flag, chunks().end());
           return true;
         }) > 0;
}

Progress Allreduce::step() {
  if (!left_out_.empty() && pass_left_out()) return Progress::moved;
  // The later stages first: they free what the earlier ones wait for.
  return end_of_step(copy_out_some() || exchange_some() || sum_some() || copy_in_some());
}

Progress Allreduce::end_of_step(bool moved) const {
  const Progress progress = moved ? Progress::moved : Progress::waiting;
  for (const std::uint64_t passed : {in_.chunk, sum_.chunk, exchanged_, out_.chunk}) {
    if (passed < chunks().size()) return progress;
  }
  if (!left_out_.empty()) return progress;
  if (!shared_) return Progress::done;
  // Others may still read this rank's inputs, or write its outputs.
  const auto last_use = does_gather() ? &shm::RankBlock::copied_out : &shm::RankBlock::reduced;
  return memory_.least(last_use) >= chunks().end() ? Progress::done : progress;
}

bool Allreduce::all_in_arenas() const {
  for (int local = 0; local < memory_.local_size(); ++local) {
    if (memory_.descriptor(local, sequence_).parts == 0) return false;
  }
  return true;
}

std::string Allreduce::describe() const {
  std::string text = fmt::format("{} chunks, here copied in {}, summed {}, exchanged {}",
                                 chunks().size(), in_.chunk, sum_.chunk, exchanged_);
  if (!does_deliver() && !direct()) text += fmt::format(", copied out {}", out_.chunk);
  if (shared_ && exchanged_ == chunks().size()) {
    return fmt::format("{}; not done with their slices: {}", text,
                       late_ranks(topology_, memory_, &shm::RankBlock::reduced, chunks().end()));
  }
  for (std::uint64_t chunk = exchanged_; chunk < sum_.chunk; ++chunk) {
    text += "; " + exchange(chunk).describe();
  }
  if (out_.chunk < sum_.chunk) text += late(&shm::RankBlock::reduced, out_.chunk, "not reduced");
  if (!shared_ && sum_.chunk < in_.chunk) {
    text += late(&shm::RankBlock::copied_in, sum_.chunk, "not copied in");
  }
  return text + without_room();
}

std::string Allreduce::late(shm::Flag shm::RankBlock::*flag, std::uint64_t chunk,
                            std::string_view what) const {
  const std::uint64_t wanted = chunks().number(chunk) + 1;
  if (memory_.least(flag) >= wanted) return {};
  return fmt::format("; chunk {} {} by {}", chunk, what,
                     late_ranks(topology_, memory_, flag, wanted));
}

std::string Allreduce::without_room() const {
  const auto last_use = does_gather() ? &shm::RankBlock::copied_out : &shm::RankBlock::reduced;
  if (in_.chunk == chunks().size() || staging_is_free(last_use, in_.chunk)) return {};
  const std::uint64_t wanted = chunks().number(in_.chunk) - memory_.layout().slots + 1;
  return fmt::format("; staging for chunk {} still in use by {}", in_.chunk,
                     late_ranks(topology_, memory_, last_use, wanted));
}

}  // namespace tutti::collective
