#include "control/link_message.h"
#include "fuzz/decoders.h"

namespace tutti::fuzz {
namespace {

constexpr int ranks = 8;

void read(Bytes bytes) {
  const auto message = accepted([&] { return control::decode_link_message(bytes, ranks); });
  if (!message) return;
  for (const int rank : message->ranks) {
    if (rank < 0 || rank >= ranks) std::abort();
  }
  control::decode_link_message(control::encode(message->kind, message->ranks, message->body),
                               ranks);
}

constexpr Decoder all[] = {read};

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

}  // namespace tutti::fuzz
