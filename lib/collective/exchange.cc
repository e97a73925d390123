#include "collective/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/cache_line.h"
#include "base/failure.h"

namespace tutti::collective {
namespace {

/// Up to this size each rank sends its whole shard to all, because a second round of messages would
/// take longer.
constexpr std::size_t gather_bytes = std::size_t{8} << 10;
/// Blocks begin at multiples of this number of elements. For f32 and wider types these are cache
/// lines.
constexpr std::size_t block_granule = 16;
/// The most bytes that a block may have beyond an even share: one `block_granule`, and one
/// `granule` of the slice.
constexpr std::size_t slack = 1024;

}  // namespace

Exchange::Exchange(const mpi::Communicator& communicator, std::vector<int> kin, std::size_t me,
                   NodeSum sum_of_nodes, Limits limits, int stream)
    : kin_(std::move(kin)),
      me_(me),
      sum_of_nodes_(std::move(sum_of_nodes)),
      tag_(stream),
      requests_(communicator) {
  const std::size_t share = std::max(limits.shard / peers() + slack, limits.block);
  inbox_stride_ = (std::max(share, std::min(limits.shard, gather_bytes)) + base::cache_line - 1) /
                  base::cache_line * base::cache_line;
  buffers_->inbox.resize(inbox_stride_ * peers());
  requests_.hold(buffers_);
}

void Exchange::begin(const reduce::Kernel& kernel, WireFormat wire, std::byte* shard,
                     std::size_t count) {
  base::check(phase_ == Phase::idle, "an exchange is started when the one before is done");
  kernel_ = kernel;
  shard_ = shard;
  count_ = count;
  halfway_ = false;
  wide_ = nullptr;
  if (wire != WireFormat::none) narrow(wire);
  width_ = size_of(kernel_.in);
}

void Exchange::start(const reduce::Kernel& kernel, WireFormat wire, std::byte* shard,
                     std::size_t count) {
  begin(kernel, wire, shard, count);
  const int owners = static_cast<int>(peers());
  blocks_.clear();
  for (int i = 0; i < owners; ++i)
    blocks_.push_back(topology::shard(count, owners, i, block_granule));
  if (count_ * width_ <= gather_bytes) {
    start_gather();
  } else {
    start_reduce_scatter();
  }
}

void Exchange::reduce_scatter(const reduce::Kernel& kernel, WireFormat wire, std::byte* shard,
                              std::span<const topology::Range> blocks) {
  begin(kernel, wire, shard, blocks.back().end);
  blocks_.assign(blocks.begin(), blocks.end());
  halfway_ = true;
  start_reduce_scatter();
}

void Exchange::allgather(DType dtype, std::byte* shard, std::span<const topology::Range> blocks) {
  begin({dtype, dtype}, WireFormat::none, shard, blocks.back().end);
  blocks_.assign(blocks.begin(), blocks.end());
  start_allgather();
}

void Exchange::narrow(WireFormat wire) {
  const DType dtype = wire == WireFormat::fp16 ? DType::f16 : DType::bf16;
  std::vector<std::byte>& narrow = buffers_->narrow;
  narrow.resize(std::max(narrow.size(), count_ * size_of(dtype)));
  const void* const source = shard_;
  // The sum is divided first. A node's sum may be too large for 16 bits though the average is not.
  const reduce::Kernel divide{DType::f32, dtype, kernel_.op, std::exchange(kernel_.divisor, 1)};
  reduce::reduce(divide, {&source, 1}, narrow.data(), count_);
  kernel_.in = kernel_.out = dtype;
  wide_ = std::exchange(shard_, narrow.data());
}

void Exchange::finish() {
  phase_ = Phase::idle;
  if (wide_ == nullptr) return;
  const topology::Range range = halfway_ ? blocks_[me_] : topology::Range{0, count_};
  const void* const source = shard_ + range.begin * width_;
  reduce::reduce({kernel_.in, DType::f32}, {&source, 1}, wide_ + range.begin * size_of(DType::f32),
                 range.size());
}

void Exchange::send(std::size_t to, topology::Range range) {
  const std::size_t bytes = range.size() * width_;
  bytes_sent_ += bytes;
  open_.push_back(requests_.send(kin_[to], tag_, {shard_ + range.begin * width_, bytes}));
}

void Exchange::receive(std::size_t from, std::byte* into, std::size_t elements) {
  open_.push_back(requests_.receive(kin_[from], tag_, {into, elements * width_}));
}

void Exchange::start_gather() {
  phase_ = Phase::gather;
  for (std::size_t i = 1; i < peers(); ++i) {
    receive((me_ + peers() - i) % peers(), inbox((me_ + peers() - i) % peers()), count_);
    send((me_ + i) % peers(), {0, count_});
  }
}

void Exchange::start_reduce_scatter() {
  phase_ = Phase::reduce_scatter;
  // In each round all ranks send to different ranks, so that no two share a link.
  for (std::size_t i = 1; i < peers(); ++i) {
    const std::size_t from = (me_ + peers() - i) % peers();
    receive(from, inbox(from), blocks_[me_].size());
    send((me_ + i) % peers(), blocks_[(me_ + i) % peers()]);
  }
}

void Exchange::start_allgather() {
  phase_ = Phase::allgather;
  for (std::size_t i = 1; i < peers(); ++i) {
    const std::size_t from = (me_ + peers() - i) % peers();
    const topology::Range theirs = blocks_[from];
    receive(from, shard_ + theirs.begin * width_, theirs.size());
    send((me_ + i) % peers(), blocks_[me_]);
  }
}

void Exchange::sum(topology::Range range) {
  std::byte* const own = shard_ + range.begin * width_;
  places_.clear();
  for (std::size_t node = 0; node < peers(); ++node) {
    places_.push_back(node == me_ ? own : inbox(node));
  }
  sum_of_nodes_(kernel_, places_, own, range.size());
}

bool Exchange::poll_transfers() {
  requests_.progress();
  std::erase_if(open_, [&](mpi::Requests::Id id) { return requests_.take_finished(id); });
  return open_.empty();
}

Progress Exchange::step() {
  if (phase_ == Phase::idle) return Progress::done;
  const std::size_t open = open_.size();
  if (!poll_transfers()) return open_.size() < open ? Progress::moved : Progress::waiting;
  if (phase_ == Phase::reduce_scatter) {
    sum(blocks_[me_]);
    if (halfway_) {
      finish();
      return Progress::done;
    }
    start_allgather();
    return Progress::moved;
  }
  if (phase_ == Phase::gather) sum({0, count_});
  finish();
  return Progress::done;
}

std::string Exchange::describe() const {
  constexpr const char* names[] = {"idle", "gather", "reduce_scatter", "allgather"};
  return fmt::format("exchange between nodes of {} elements, phase {}: {}", count_,
                     names[static_cast<std::size_t>(phase_)], requests_.describe());
}

}  // namespace tutti::collective
