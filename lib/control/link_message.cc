#include "control/link_message.h"

#include <cstdint>

#include "tutti/error.h"

namespace tutti::control {
namespace {

constexpr std::size_t head_bytes = 1 + 4;

[[noreturn]] void refuse() {
  throw Error(ErrorCode::internal, "a malformed message arrived on a link between nodes");
}

bool fits(LinkMessage::Kind kind, std::size_t ranks) {
  switch (kind) {
    case LinkMessage::Kind::heartbeat:
      return ranks == 0;
    case LinkMessage::Kind::message:
      return true;
    case LinkMessage::Kind::lost:
    case LinkMessage::Kind::departed:
    case LinkMessage::Kind::closing:
      return ranks == 1;
  }
  return false;
}

}  // namespace

net::Bytes encode(LinkMessage::Kind kind, const std::vector<int>& ranks, net::ConstBytes body) {
  net::Bytes bytes;
  bytes.reserve(head_bytes + 4 * ranks.size() + body.size());
  bytes.push_back(static_cast<std::byte>(kind));
  net::append_u32(bytes, static_cast<std::uint32_t>(ranks.size()));
  for (const int rank : ranks) net::append_u32(bytes, static_cast<std::uint32_t>(rank));
  net::append(bytes, body);
  return bytes;
}

LinkMessage decode_link_message(net::ConstBytes bytes, int size) {
  if (bytes.size() < head_bytes) refuse();
  LinkMessage message;
  message.kind = static_cast<LinkMessage::Kind>(bytes[0]);
  const std::size_t count = net::load_u32(bytes.data() + 1);
  bytes = bytes.subspan(head_bytes);
  if (!fits(message.kind, count) || count > bytes.size() / 4) refuse();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t rank = net::load_u32(bytes.data() + 4 * i);
    if (rank >= static_cast<std::uint32_t>(size)) refuse();
    message.ranks.push_back(static_cast<int>(rank));
  }
  bytes = bytes.subspan(4 * count);
  message.body.assign(bytes.begin(), bytes.end());
  return message;
}

}  // namespace tutti::control
