#include <cstdint>
#include <cstring>
#include <vector>

#include "fuzz/decoders.h"

// The name that libFuzzer calls.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // Memory of its own ends where the input does, so that reading beyond it is seen.
  std::vector<std::byte> bytes(size - 1);
  if (!bytes.empty()) std::memcpy(bytes.data(), data + 1, bytes.size());
  const auto all = tutti::fuzz::decoders();
  all[data[0] % all.size()](bytes);
  return 0;
}
