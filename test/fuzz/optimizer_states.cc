#include <cstdint>

#include "fuzz/decoders.h"
#include "optimizer/saved.h"

namespace tutti::fuzz {
namespace {

void read(Bytes bytes) {
  const std::span words(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const auto saved =
      accepted([&] { return optimizer::read_saved(words); }, ErrorCode::invalid_argument);
  if (saved) optimizer::read_saved(optimizer::write_saved(*saved));
}

constexpr Decoder all[] = {read};

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

}  // namespace tutti::fuzz
