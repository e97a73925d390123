#include "net/intake.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "net/message_stream.h"
#include "tutti/error.h"

namespace tutti::net {
namespace {

constexpr std::size_t most_at_once = std::size_t{16} << 10;

/// The memory is not cleared, because all of it is received before anybody reads it.
std::shared_ptr<std::byte> memory_of(std::size_t bytes) {
  constexpr std::align_val_t alignment{64};
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, alignment));
  return {memory, [](std::byte* p) { ::operator delete(p, alignment); }};
}

[[noreturn]] void malformed() {
  throw Error(ErrorCode::internal, "the bytes that arrived are no message");
}

}  // namespace

ssize_t Intake::read(const base::Fd& socket) {
  if (large_.body && !opener_.decrypts()) return read_body(socket);
  std::array<std::byte, most_at_once> raw;
  const ssize_t count = ::recv(socket.get(), raw.data(), raw.size(), 0);
  drained_ = count < static_cast<ssize_t>(raw.size());
  if (count <= 0) return count;
  opener_.feed(ConstBytes(raw.data(), static_cast<std::size_t>(count)));
  while (const auto payload = opener_.next()) {
    ++frames_;
    take(*payload);
  }
  if (large_.body && !opener_.decrypts()) take_rest();
  return count;
}

bool Intake::next(Parcel& parcel) {
  parcel.body.reset();
  if (first_ == end_) return false;
  std::swap(parcel, complete_[first_++]);
  return true;
}

/// After the first messages, small ones such as heartbeats allocate nothing.
Parcel& Intake::add() {
  if (first_ == end_) first_ = end_ = 0;
  if (end_ == complete_.size()) complete_.emplace_back();
  return complete_[end_++];
}

void Intake::take(ConstBytes payload) {
  if (large_.body) {
    if (payload.size() != body_frame_bytes()) malformed();
    std::memcpy(large_.body.get() + checked_, payload.data(), payload.size());
    return add_to_body(payload.size());
  }
  while (!payload.empty()) {
    if (payload.size() < message_length_bytes) malformed();
    const std::size_t length = load_u32(payload.data());
    check_message_length(length);
    payload = payload.subspan(message_length_bytes);
    if (payload.size() < length) return begin_large(payload, length - payload.size());
    Parcel& small = add();
    small.head.assign(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length));
    small.body_bytes = 0;
    payload = payload.subspan(length);
  }
}

void Intake::begin_large(ConstBytes head, std::size_t body_bytes) {
  large_ = {{head.begin(), head.end()}, memory_of(body_bytes), body_bytes};
  checked_ = received_ = 0;
}

std::size_t Intake::body_frame_bytes() const {
  return std::min(large_.body_bytes - checked_, max_frame_payload);
}

void Intake::add_to_body(std::size_t bytes) {
  checked_ += bytes;
  if (checked_ == large_.body_bytes) add() = std::exchange(large_, {});
}

/// The beginning of the frame of a body has been read together with the bytes before it.
void Intake::take_rest() {
  const ConstBytes rest = opener_.rest();
  if (rest.size() > header_.size() + body_frame_bytes()) malformed();
  const std::size_t of_header = std::min(rest.size(), header_.size());
  std::copy_n(rest.begin(), of_header, header_.begin());
  std::copy(rest.begin() + static_cast<std::ptrdiff_t>(of_header), rest.end(),
            large_.body.get() + checked_);
  received_ = rest.size();
  opener_.use_rest();
}

ssize_t Intake::read_body(const base::Fd& socket) {
  const std::size_t size = body_frame_bytes();
  const std::size_t of_header = std::min(received_, header_.size());
  const std::size_t of_payload = received_ - of_header;
  std::byte* const payload = large_.body.get() + checked_;
  const iovec parts[] = {{header_.data() + of_header, header_.size() - of_header},
                         {payload + of_payload, size - of_payload}};
  const ssize_t count = ::readv(socket.get(), parts, 2);
  drained_ = count < static_cast<ssize_t>(header_.size() + size - received_);
  if (count <= 0) return count;
  received_ += static_cast<std::size_t>(count);
  if (received_ == header_.size() + size) {
    opener_.check(header_, {payload, size});
    ++frames_;
    received_ = 0;
    add_to_body(size);
  }
  return count;
}

}  // namespace tutti::net
