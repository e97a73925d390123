#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "control/loss_slot.h"
#include "net/bytes.h"

namespace tutti::control {

/// A message on the link between a leader and rank 0.
struct LinkMessage {
  enum class Kind : std::uint8_t {
    heartbeat,  ///< says only that the sender lives
    /// Up: from the one rank in `ranks`; down: to `ranks`, or to the whole node if that is empty.
    message,
    lost,      ///< this rank made the session unusable; the body is the reason
    departed,  ///< up only: this rank has left the store by agreement
    closing,   ///< up and down: this rank passes nothing to single ranks any more
  };

  Kind kind = Kind::heartbeat;
  std::vector<int> ranks;
  net::Bytes body;
};

net::Bytes encode(LinkMessage::Kind kind, const std::vector<int>& ranks, net::ConstBytes body);
/// Throws `internal` if the bytes are none that `encode` makes in a world of `size` ranks.
LinkMessage decode_link_message(net::ConstBytes bytes, int size);

inline net::Bytes sign_of_life() {
  return encode(LinkMessage::Kind::heartbeat, {}, {});
}
inline net::Bytes encode(const FailedRank& lost) {
  return encode(LinkMessage::Kind::lost, {lost.rank}, net::as_bytes(lost.reason));
}

}  // namespace tutti::control
