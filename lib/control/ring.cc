#include "control/ring.h"

#include <algorithm>
#include <cstring>

#include "base/failure.h"
#include "control/frame.h"

namespace tutti::control {

bool RingWriter::send(std::span<const std::byte> message) {
  const auto length = static_cast<std::uint32_t>(message.size());
  const auto head = std::as_bytes(std::span(&length, 1));
  backlog_.insert(backlog_.end(), head.begin(), head.end());
  backlog_.insert(backlog_.end(), message.begin(), message.end());
  return flush();
}

bool RingWriter::flush() {
  if (backlog_.empty()) return false;
  const std::uint64_t written = ring_->written.load(std::memory_order_relaxed);
  std::uint64_t room = Ring::capacity - (written - ring_->read.load(std::memory_order_seq_cst));
  if (room < backlog_.size()) {
    // Say so before looking again, so that room made in between is not missed.
    ring_->writer_waits.store(1, std::memory_order_seq_cst);
    room = Ring::capacity - (written - ring_->read.load(std::memory_order_seq_cst));
  }
  const std::size_t count = std::min<std::size_t>(room, backlog_.size());
  for (std::size_t i = 0; i < count; ++i) {
    ring_->bytes[(written + i) % Ring::capacity] = backlog_[i];
  }
  backlog_.erase(backlog_.begin(), backlog_.begin() + static_cast<std::ptrdiff_t>(count));
  ring_->written.store(written + count, std::memory_order_release);
  return count > 0;
}

void RingReader::drain() {
  const std::uint64_t read = ring_->read.load(std::memory_order_relaxed);
  const std::uint64_t written = ring_->written.load(std::memory_order_acquire);
  if (read == written) return;
  for (std::uint64_t at = read; at < written; ++at) {
    partial_.push_back(ring_->bytes[at % Ring::capacity]);
  }
  ring_->read.store(written, std::memory_order_seq_cst);
  made_room_ = true;
}

bool RingReader::receive(std::vector<std::byte>& message) {
  drain();
  std::uint32_t length = 0;
  if (partial_.size() - taken_ < sizeof length) return false;
  std::memcpy(&length, partial_.data() + taken_, sizeof length);
  base::check(length <= longest_message, "a message in shared memory has a sane length");
  if (partial_.size() - taken_ < sizeof length + length) return false;
  const auto begin = partial_.begin() + static_cast<std::ptrdiff_t>(taken_ + sizeof length);
  message.assign(begin, begin + static_cast<std::ptrdiff_t>(length));
  taken_ += sizeof length + length;
  if (taken_ == partial_.size()) {
    partial_.clear();
    taken_ = 0;
  }
  return true;
}

bool RingReader::writer_wants_waking() {
  if (!made_room_) return false;
  made_room_ = false;
  return ring_->writer_waits.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace tutti::control
