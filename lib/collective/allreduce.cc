#include "collective/allreduce.h"

#include <fmt/format.h>

namespace tutti::collective {

Allreduce::Allreduce(const topology::Topology& topology, const shm::NodeMemory& memory,
                     const Lane& lane, const Site& site, const Tuning& tuning)
    : topology_(topology),
      memory_(memory),
      site_(site),
      lane_(lane),
      host_(tuning.staging),
      layout_(topology),
      in_(memory.layout().slots),
      out_(memory.layout().slots) {}

void Allreduce::start(const Batch& batch, std::uint64_t sequence, std::uint64_t before) {
  batch_ = &batch;
  recorder_.set_batch(batch.epoch, batch.number);
  sequence_ = sequence;
  width_ = size_of(batch.dtype);
  layout_.start(batch, memory_.layout().slot_bytes, before);
  route_ = choose_route(batch, site_, memory_.are_all_in_arenas(sequence));
  ends_ = batch.ends == nullptr ? &host_ : batch.ends;
  ends_->start(batch);
  in_.start();
  sum_ = {};
  out_.start();
  exchanged_ = 0;
  leave_out_stages();
}

void Allreduce::leave_out_stages() {
  if (route_.copy_in == Route::CopyIn::none) in_.leave_out(chunks().size());
  if (route_.sum == Route::Sum::none) sum_.chunk = exchanged_ = chunks().size();
  if (route_.copy_out == Route::CopyOut::none) out_.leave_out(chunks().size());
  left_out_.clear();
  if (route_.leaves_out_copied_in) leave_out(&shm::RankBlock::copied_in);
  if (route_.leaves_out_copied_out) leave_out(&shm::RankBlock::copied_out);
  if (route_.leaves_out_reduced) leave_out(&shm::RankBlock::reduced);
}

/// Raises the flag of a stage that is left out, for all chunks at once, because other ranks wait
/// for it. This happens only when the earlier batches have passed that stage.
void Allreduce::leave_out(Route::Flag flag) {
  if (is_next(flag)) {
    memory_.raise(flag, chunks().end());
  } else {
    left_out_.push_back(flag);
  }
}

bool Allreduce::pass_left_out() {
  return std::erase_if(left_out_, [this](Route::Flag flag) {
           if (!is_next(flag)) return false;
           memory_.raise(flag, chunks().end());
           return true;
         }) > 0;
}

bool Allreduce::drive_device() {
  const bool out = copy_out_some();
  return copy_in_some() || out;
}

Progress Allreduce::step() {
  if (!left_out_.empty() && pass_left_out()) return Progress::moved;
  // The later stages come first, because they free the memory for which the earlier ones wait.
  if (ends_ == &host_) {
    return end_of_step(copy_out_some() || exchange_some() || sum_some() || copy_in_some());
  }
  const bool copied = drive_device();
  const bool exchanged = exchange_some();
  return end_of_step(sum_some() || exchanged || copied);
}

Progress Allreduce::end_of_step(bool moved) const {
  const Progress progress = moved ? Progress::moved : Progress::waiting;
  for (const std::uint64_t passed : {in_.over(), sum_.chunk, exchanged_, out_.over()}) {
    if (passed < chunks().size()) return progress;
  }
  if (!left_out_.empty()) return progress;
  if (!route_.waits_for_release) return Progress::done;
  return memory_.least(route_.released) >= chunks().end() ? Progress::done : progress;
}

std::string Allreduce::describe() const {
  std::string text = fmt::format("{} chunks, here copied in {}, summed {}, exchanged {}",
                                 chunks().size(), in_.over(), sum_.chunk, exchanged_);
  if (route_.copy_out != Route::CopyOut::none) text += fmt::format(", copied out {}", out_.over());
  if (route_.waits_for_release && exchanged_ == chunks().size()) {
    return fmt::format("{}; not done with their slices: {}", text,
                       late_ranks(topology_, memory_, &shm::RankBlock::reduced, chunks().end()));
  }
  for (std::uint64_t chunk = exchanged_; chunk < sum_.chunk; ++chunk) {
    text += "; " + exchange(chunk).describe();
  }
  if (in_.is_under_way()) text += fmt::format("; copy in of chunk {} is under way", in_.over());
  if (out_.is_under_way()) text += fmt::format("; copy out of chunk {} is under way", out_.over());
  if (out_.begun.chunk < sum_.chunk) {
    text += late(&shm::RankBlock::reduced, out_.begun.chunk, "not reduced");
  }
  if (route_.copy_in != Route::CopyIn::none && sum_.chunk < in_.over()) {
    text += late(&shm::RankBlock::copied_in, sum_.chunk, "not copied in");
  }
  return text + without_room();
}

std::string Allreduce::late(Route::Flag flag, std::uint64_t chunk, std::string_view what) const {
  return late_chunk(topology_, memory_, flag, {chunk, chunks().number(chunk)}, what);
}

std::string Allreduce::without_room() const {
  const std::uint64_t next = in_.begun.chunk;
  if (next == chunks().size() || is_slot_free(memory_, route_.released, chunks().number(next)))
    return {};
  const std::uint64_t wanted = chunks().number(next) - memory_.layout().slots + 1;
  return fmt::format("; staging for chunk {} still in use by {}", next,
                     late_ranks(topology_, memory_, route_.released, wanted));
}

}  // namespace tutti::collective
