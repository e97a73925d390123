// The names that libFuzzer calls; it has the main function.
#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "fuzz/decoders.h"

namespace tutti::fuzz {

void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

namespace {

/// The bytes that are taken from the heap since decoding began, and the most that ever were.
std::ptrdiff_t held = 0;
std::ptrdiff_t most_held = 0;

void note_taken(const volatile void*, std::size_t bytes) {
  held += static_cast<std::ptrdiff_t>(bytes);
  most_held = std::max(most_held, held);
}
void note_freed(const volatile void* memory) {
  held -=
      static_cast<std::ptrdiff_t>(__sanitizer_get_allocated_size(const_cast<const void*>(memory)));
}

bool decode(std::uint8_t number, Bytes input) {
  const auto all = decoders();
  const Decoder& decoder = all[number % all.size()];
  // Memory of its own ends where the input does, so that reading beyond it is seen.
  const std::vector<std::byte> bytes(input.begin(), input.end());
  held = most_held = 0;
  const bool is_accepted = decoder.decode(bytes);
  if (static_cast<std::size_t>(most_held) > decoder.spare + 512 * bytes.size()) {
    fail(std::to_string(bytes.size()) + " bytes take " + std::to_string(most_held));
  }
  return is_accepted;
}

void write_seeds(const std::filesystem::path& folder) {
  std::size_t number = 0;
  for (const Seed& seed : seeds()) {
    const std::string name = "seed-" + std::to_string(number++);
    if (!decode(seed.decoder, seed.bytes)) fail(name + " is refused");
    std::ofstream file(folder / name, std::ios::binary);
    file.put(static_cast<char>(seed.decoder));
    file.write(reinterpret_cast<const char*>(seed.bytes.data()),
               static_cast<std::streamsize>(seed.bytes.size()));
    if (!file.flush()) fail("cannot write " + (folder / name).string());
  }
}

}  // namespace
}  // namespace tutti::fuzz

// NOLINTBEGIN(readability-identifier-naming)
/// `PROGRAM seeds FOLDER` writes the seeds there and ends. All else is libFuzzer's.
extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  using namespace tutti::fuzz;
  __sanitizer_install_malloc_and_free_hooks(note_taken, note_freed);
  if (*count != 3 || std::string_view((*words)[1]) != "seeds") return 0;
  write_seeds((*words)[2]);
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  tutti::fuzz::decode(data[0], std::as_bytes(std::span(data, size)).subspan(1));
  return 0;
}
// NOLINTEND(readability-identifier-naming)
