#include "fuzz/decoders.h"
#include "ps/wire.h"

namespace tutti::fuzz {
namespace {

/// What is accepted is a message, which travels as any other does.
template <auto decode>
void read(Bytes bytes) {
  if (const auto message = accepted([&] { return decode(bytes); })) decode(ps::encode(*message));
}

constexpr Decoder all[] = {read<ps::decode_to_scheduler>, read<ps::decode_from_scheduler>,
                           read<ps::decode_to_server>, read<ps::decode_answer>};

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

}  // namespace tutti::fuzz
