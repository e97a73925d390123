#include "net/outflow.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "net/message_stream.h"

namespace tutti::net {
namespace {

/// If the body of a message has at least this many bytes, it is not copied.
constexpr std::size_t least_large_message = std::size_t{16} << 10;
/// This many bytes are enough for the socket. A frame that is sealed earlier would only wait.
constexpr std::size_t most_sealed_bytes = std::size_t{256} << 10;
constexpr std::size_t most_slices = 64;

Bytes joined(ConstBytes head, ConstBytes rest_of_it) {
  Bytes all(head.begin(), head.end());
  append(all, rest_of_it);
  return all;
}

}  // namespace

void Outflow::add(ConstBytes head, Slice body) {
  const std::size_t size = head.size() + body.bytes.size();
  check_message_length(size);
  if (size < least_large_message) return gather(head, body.bytes, size);
  if (body.bytes.empty() || head.size() > max_frame_payload - message_length_bytes) {
    body = kept(joined(head, body.bytes));
    head = {};
  }
  close_frame();
  gather(head, {}, size);
  close_frame();
  add_payload(std::move(body));
}

void Outflow::gather(ConstBytes head, ConstBytes rest_of_it, std::size_t message_bytes) {
  const std::size_t size = message_length_bytes + head.size() + rest_of_it.size();
  if (gathered_ && gathered_->size() + size > max_frame_payload) close_frame();
  if (!gathered_) gathered_ = memory_.take();
  append_u32(*gathered_, static_cast<std::uint32_t>(message_bytes));
  append(*gathered_, head);
  append(*gathered_, rest_of_it);
}

void Outflow::close_frame() {
  if (!gathered_) return;
  const ConstBytes bytes = *gathered_;
  add_payload({bytes, std::move(gathered_)});
}

void Outflow::add_payload(Slice payload) {
  plain_bytes_ += payload.bytes.size();
  plain_.push_back(std::move(payload));
}

void Outflow::seal_next() {
  Slice& front = plain_.front();
  const std::size_t size = std::min(front.bytes.size(), max_frame_payload);
  wire_bytes_ += sealer_.seal({front.bytes.first(size), front.keeper}, wire_);
  plain_bytes_ -= size;
  front.bytes = front.bytes.subspan(size);
  if (front.bytes.empty()) plain_.pop_front();
}

bool Outflow::write(const base::Fd& socket) {
  close_frame();
  for (;;) {
    while (wire_bytes_ < most_sealed_bytes && !plain_.empty()) seal_next();
    if (wire_.empty()) return true;
    std::array<iovec, most_slices> parts;
    msghdr message{};
    message.msg_iov = parts.data();
    for (const Slice& slice : wire_.all()) {
      if (message.msg_iovlen == parts.size()) break;
      parts[message.msg_iovlen++] = {const_cast<std::byte*>(slice.bytes.data()),
                                     slice.bytes.size()};
    }
    const ssize_t count = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    // The system may lack memory now and have it in a moment.
    if (count < 0) return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
    use(static_cast<std::size_t>(count));
  }
}

void Outflow::use(std::size_t written) {
  wire_bytes_ -= written;
  while (written > 0) {
    Slice& front = wire_.front();
    const std::size_t size = std::min(written, front.bytes.size());
    front.bytes = front.bytes.subspan(size);
    written -= size;
    if (front.bytes.empty()) wire_.pop_front();
  }
}

void Outflow::discard() {
  gathered_.reset();
  plain_.clear();
  wire_.clear();
  plain_bytes_ = wire_bytes_ = 0;
}

}  // namespace tutti::net
