#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tutti/tensor.h"

namespace tutti::p2p {

/// Names a send or a receive of this rank.
using TransferId = std::uint64_t;

/// The elements of a small tensor, on their way with a frame.
using Payload = std::vector<std::byte>;

/// A message of the protocol between two ranks. Its size divides that of a ring. The frames from
/// one rank to another arrive in order. The elements of tensors travel beside them, one transfer
/// after the other. Only the elements of an eager send come with its frame.
struct alignas(32) Frame {
  enum class Kind : std::uint8_t {
    announce,  ///< from the sender: this send waits for a receive
    eager,     ///< from the sender: this send waits for a receive, and its elements are here
    ready,     ///< from the receiver: a receive has come for this send
    refuse,    ///< from the receiver: a receive has come that wants `count` elements of `dtype`
    expired,   ///< from the receiver: the receive for it was given up before
    dropped,   ///< from the receiver: no receive gets this eager send, which the sender took back
    go,        ///< from the sender: its elements come next; those of an eager send may be taken
    done,      ///< from the receiver: the elements have arrived
    withdraw,  ///< from the sender: no receive came in time
    cancel,    ///< from the sender: it closes its store
    left,      ///< nothing more comes from this rank
  };

  Kind kind = Kind::announce;
  DType dtype = DType::f32;
  std::int32_t tag = 0;
  std::uint64_t number = 0;  ///< of the send, among those between the two ranks
  std::uint64_t count = 0;   ///< of elements

  std::size_t bytes() const { return count * size_of(dtype); }

  friend bool operator==(const Frame&, const Frame&) = default;
};

static_assert(std::is_trivially_copyable_v<Frame> && sizeof(Frame) == 32);

}  // namespace tutti::p2p
