#include "control/link_message.h"

#include <algorithm>

#include "fuzz/decoders.h"

namespace tutti::fuzz {
namespace {

using control::LinkMessage;

constexpr int ranks = 8;

bool read(Bytes bytes) {
  const auto message = accepted([&] { return control::decode_link_message(bytes, ranks); });
  if (!message) return false;
  for (const int rank : message->ranks) {
    if (rank < 0 || rank >= ranks) fail("it names a rank that there is not");
  }
  const auto sent = control::encode(message->kind, message->ranks, message->body);
  if (!std::ranges::equal(sent, bytes)) fail("sent on, it arrives as another message");
  return true;
}

constexpr Decoder all[] = {{read}};

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  return {{0, control::sign_of_life()},
          {0, control::encode(LinkMessage::Kind::message, {1, 2, 5}, net::as_bytes("body"))},
          {0, control::encode({3, "gone"})},
          {0, control::encode(LinkMessage::Kind::departed, {7}, {})}};
}

}  // namespace tutti::fuzz
