#include "net/byte_ring.h"

#include <algorithm>

#include "base/failure.h"

namespace tutti::net {

// The cursors and `starved` are sequentially consistent. Each end stores its own word and then
// loads that of the other end. At least one of them must see the other one's store; otherwise a
// wake-up is lost.

std::size_t ByteRing::room_left() const {
  const std::uint64_t used = cursors_->written.load(std::memory_order_relaxed) -
                             cursors_->taken.load(std::memory_order_seq_cst);
  base::check(used <= room_.size(), "a mailbox ring holds no more than its size");
  return room_.size() - used;
}

std::size_t ByteRing::write(ConstBytes bytes) {
  const std::size_t count = std::min(bytes.size(), room_left());
  if (count == 0) return 0;
  const std::uint64_t at = cursors_->written.load(std::memory_order_relaxed);
  const std::size_t before_wrap = std::min(count, room_.size() - place(at));
  std::copy_n(bytes.begin(), before_wrap, room_.data() + place(at));
  std::copy_n(bytes.data() + before_wrap, count - before_wrap, room_.data());
  cursors_->written.store(at + count, std::memory_order_seq_cst);
  return count;
}

bool ByteRing::ask_for_room() {
  cursors_->starved.store(1, std::memory_order_seq_cst);
  return room_left() == 0;
}

bool ByteRing::empty() const {
  return cursors_->written.load(std::memory_order_seq_cst) ==
         cursors_->taken.load(std::memory_order_relaxed);
}

std::array<ConstBytes, 2> ByteRing::readable() const {
  const std::uint64_t from = cursors_->taken.load(std::memory_order_relaxed);
  const std::uint64_t count = cursors_->written.load(std::memory_order_seq_cst) - from;
  base::check(count <= room_.size(), "a mailbox ring holds no more than its size");
  const std::size_t before_wrap = std::min<std::size_t>(count, room_.size() - place(from));
  return {ConstBytes(room_.data() + place(from), before_wrap),
          ConstBytes(room_.data(), count - before_wrap)};
}

void ByteRing::consume(std::size_t count) {
  const std::uint64_t from = cursors_->taken.load(std::memory_order_relaxed);
  cursors_->taken.store(from + count, std::memory_order_seq_cst);
}

bool ByteRing::take_request_for_room() {
  return cursors_->starved.load(std::memory_order_seq_cst) != 0 &&
         cursors_->starved.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace tutti::net
