#include "coordinator/wire.h"
#include "fuzz/decoders.h"

namespace tutti::fuzz {
namespace {

/// What is accepted is a message, which arrives unchanged when it is sent on.
template <auto decode>
void read(Bytes bytes) {
  const auto message = accepted([&] { return decode(bytes); });
  if (message && !(decode(coordinator::encode(*message)) == *message)) std::abort();
}

constexpr Decoder all[] = {read<coordinator::decode_to_coordinator>,
                           read<coordinator::decode_to_rank>};

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

}  // namespace tutti::fuzz
