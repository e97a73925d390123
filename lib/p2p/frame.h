#pragma once
#include <cstdint>
#include <type_traits>

#include "tutti/tensor.h"

namespace tutti::p2p {

/// Names a call of this rank's.
using CallId = std::uint64_t;

/// A message of the protocol between two ranks, of a size that divides a ring's. The frames from
/// one rank to another arrive in order; the elements of tensors travel beside them, those of one
/// transfer after the other.
struct alignas(32) Frame {
  enum class Kind : std::uint8_t {
    announce,  ///< from the sender: this send waits for a receive
    ready,     ///< from the receiver: a receive has come for it
    refuse,    ///< from the receiver: one has come that wants `count` elements of `dtype`
    expired,   ///< from the receiver: the receive for it was given up before
    go,        ///< from the sender: its elements come next
    done,      ///< from the receiver: they have arrived
    withdraw,  ///< from the sender: no receive came in time
    cancel,    ///< from the sender: it closes its store
    left,      ///< nothing more comes from this rank
  };

  Kind kind = Kind::announce;
  DType dtype = DType::f32;
  std::int32_t tag = 0;
  std::uint64_t number = 0;  ///< of the send, among those between the two ranks
  std::uint64_t count = 0;   ///< of elements

  friend bool operator==(const Frame&, const Frame&) = default;
};

static_assert(std::is_trivially_copyable_v<Frame> && sizeof(Frame) == 32);

}  // namespace tutti::p2p
