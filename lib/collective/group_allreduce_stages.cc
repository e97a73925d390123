// The stages of GroupAllreduce: what each tells the GPU to do with a chunk.
#include "collective/group_allreduce.h"

namespace tutti::collective {

using observe::Stage;

namespace {

const std::byte* input(const Batch& batch, const PartRange& piece) {
  return static_cast<const std::byte*>(batch.parts[piece.part].ins.front()) +
         piece.first * size_of(batch.dtype);
}

std::byte* output(const Batch& batch, const PartRange& piece, std::size_t index) {
  return static_cast<std::byte*>(batch.parts[piece.part].outs[index]) +
         piece.first * size_of(batch.dtype);
}

}  // namespace

topology::Range GroupAllreduce::slice(std::uint64_t chunk, int local) const {
  return layout_.slice(chunk, local);
}

std::byte* GroupAllreduce::result(std::uint64_t chunk) const {
  const std::size_t begin = own_slice(chunk).begin;
  return memory_.staging_out(chunks().number(chunk)) + begin * width_;
}

std::byte* GroupAllreduce::place(std::uint64_t chunk, int local) const {
  return group_->place(chunks().number(chunk), local);
}

/// Visits the pieces of a slice that lie in one tensor each. All ranks have the same pieces.
template <typename Visit>
void GroupAllreduce::for_each_piece(std::uint64_t chunk, topology::Range slice,
                                    const Visit& visit) const {
  const std::size_t begin = chunks().range(chunk).begin;
  for_each_part_range(*batch_, {begin + slice.begin, begin + slice.end}, visit);
}

template <typename Visit>
void GroupAllreduce::for_each_peer(const Visit& visit) const {
  for (int local = 0; local < memory_.local_size(); ++local) {
    if (local != memory_.local_index()) visit(local);
  }
}

bool GroupAllreduce::raise(CopyStage& stage, DeviceQueue& queue, Route::Flag flag, Stage recorded) {
  const auto is_over = [&](CopyStage::Mark mark) { return queue.is_over(mark); };
  if (!is_next(flag) || !stage.poll_over(is_over)) return false;
  recorder_.end(recorded, stage.over() - 1);
  memory_.raise(flag, chunks().number(stage.over()));
  return true;
}

void GroupAllreduce::scatter() {
  const std::uint64_t chunk = scatter_.begun.chunk;
  recorder_.begin(Stage::copy_in, chunk);
  sends_.clear();
  receives_.clear();
  for_each_peer([&](int peer) {
    for_each_piece(chunk, slice(chunk, peer), [&](const PartRange& piece) {
      sends_.push_back({input(*batch_, piece), piece.count * width_, peer});
    });
    for_each_piece(chunk, own_slice(chunk), [&](const PartRange& piece) {
      std::byte* const to = place(chunk, peer) + piece.before * width_;
      receives_.push_back({to, piece.count * width_, peer});
    });
  });
  group_->launch(sends_, receives_);
  scatter_.next_chunk(group_->launches().mark());
  ++group_->passed().scatters;
  sum(chunk);
}

void GroupAllreduce::sum(std::uint64_t chunk) {
  group_->sums().follow(group_->launches());
  const int own = memory_.local_index();
  const reduce::Kernel kernel = batch_->kernel_in_node(site_.several_nodes());
  for_each_piece(chunk, own_slice(chunk), [&](const PartRange& piece) {
    sources_.clear();
    for (int local = 0; local < memory_.local_size(); ++local) {
      sources_.push_back(local == own ? input(*batch_, piece)
                                      : place(chunk, local) + piece.before * width_);
    }
    group_->reduce(kernel, sources_, place(chunk, own) + piece.before * width_, piece.count);
  });
  if (exchanges()) {
    copy_down(chunk);
  } else {
    sum_.next_chunk(group_->sums().mark());
  }
}

void GroupAllreduce::copy_down(std::uint64_t chunk) {
  DeviceQueue& down = group_->down();
  down.follow(group_->sums());
  const std::size_t bytes = own_slice(chunk).size() * width_;
  if (bytes > 0) {
    down.stream().copy_to_host(result(chunk), place(chunk, memory_.local_index()), bytes);
  }
  sum_.next_chunk(down.mark());
}

bool GroupAllreduce::exchange_some() {
  if (!exchanges()) return false;
  bool moved = false;
  const auto is_down = [&](CopyStage::Mark mark) { return group_->down().is_over(mark); };
  if (sum_.over() < scatter_.over() && sum_.poll_over(is_down)) {
    start_exchange();
    moved = true;
  }
  // While this waits for the first transfer, it also drives those of later chunks.
  for (std::uint64_t chunk = exchanged_; chunk < sum_.over(); ++chunk) {
    if (exchange(chunk).is_busy()) moved |= exchange(chunk).step() != Progress::waiting;
  }
  if (exchanged_ == sum_.over() || exchange(exchanged_).is_busy()) return moved;
  copy_up();
  return true;
}

void GroupAllreduce::start_exchange() {
  const std::uint64_t chunk = sum_.over() - 1;
  recorder_.end(Stage::sum, chunk);
  recorder_.begin(Stage::between_nodes, chunk);
  exchange(chunk).start(batch_->kernel_between(), batch_->wire, result(chunk),
                        own_slice(chunk).size());
}

void GroupAllreduce::copy_up() {
  const std::uint64_t chunk = exchanged_++;
  DeviceQueue& up = group_->up();
  const std::size_t bytes = own_slice(chunk).size() * width_;
  if (bytes > 0) {
    up.stream().copy_to_device(place(chunk, memory_.local_index()), result(chunk), bytes);
  }
  up_.next_chunk(up.mark());
}

bool GroupAllreduce::raise_reduced() {
  constexpr Route::Flag reduced = &shm::RankBlock::reduced;
  if (exchanges()) return raise(up_, group_->up(), reduced, Stage::between_nodes);
  return sum_.over() < scatter_.over() && raise(sum_, group_->sums(), reduced, Stage::sum);
}

void GroupAllreduce::gather() {
  const std::uint64_t chunk = gather_.begun.chunk;
  recorder_.begin(Stage::copy_out, chunk);
  copy_own_slice(chunk);
  const int own = memory_.local_index();
  sends_.clear();
  receives_.clear();
  for_each_peer([&](int peer) {
    for_each_piece(chunk, own_slice(chunk), [&](const PartRange& piece) {
      const std::byte* const from = place(chunk, own) + piece.before * width_;
      sends_.push_back({from, piece.count * width_, peer});
    });
    for_each_piece(chunk, slice(chunk, peer), [&](const PartRange& piece) {
      // The place has been free since the sum. It takes the elements for which this rank has no
      // output.
      std::byte* const to = batch_->parts[piece.part].outs.empty()
                                ? place(chunk, peer) + piece.before * width_
                                : output(*batch_, piece, 0);
      receives_.push_back({to, piece.count * width_, peer});
    });
  });
  group_->launch(sends_, receives_);
  group_->outputs().follow(group_->launches());
  copy_further_outputs(chunk);
  gather_.next_chunk(group_->outputs().mark());
  ++group_->passed().gathers;
}

void GroupAllreduce::copy_own_slice(std::uint64_t chunk) {
  for_each_piece(chunk, own_slice(chunk), [&](const PartRange& piece) {
    if (batch_->parts[piece.part].outs.empty()) return;
    const std::byte* const from = place(chunk, memory_.local_index()) + piece.before * width_;
    group_->outputs().stream().copy(output(*batch_, piece, 0), from, piece.count * width_);
  });
}

void GroupAllreduce::copy_further_outputs(std::uint64_t chunk) {
  const std::size_t size = layout_.size(chunk);
  for_each_piece(chunk, {0, size}, [&](const PartRange& piece) {
    for (std::size_t i = 1; i < batch_->parts[piece.part].outs.size(); ++i) {
      group_->outputs().stream().copy(output(*batch_, piece, i), output(*batch_, piece, 0),
                                      piece.count * width_);
    }
  });
}

}  // namespace tutti::collective
