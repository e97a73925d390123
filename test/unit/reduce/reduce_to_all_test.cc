#include <algorithm>
#include <catch2/catch.hpp>

#include "reference.h"

using namespace reference;

namespace {

constexpr std::byte untouched{0xA5};
constexpr std::size_t line = 64;

/// Outputs in memory of their own. Each begins this many bytes behind the beginning of a line, and
/// has a line on both sides that nobody may touch.
class Outputs {
 public:
  Outputs(const std::vector<std::size_t>& misalignments, std::size_t bytes) : bytes_(bytes) {
    for (const std::size_t misalignment : misalignments) {
      memory_.emplace_back(bytes + 4 * line, untouched);
      Bytes& memory = memory_.back();
      const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
      begins_.push_back(line + (line - at % line) + misalignment % line);
      places.push_back(memory.data() + begins_.back());
    }
  }

  /// Each holds this, and nothing around it has changed.
  bool hold(const Bytes& expected) const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      Bytes whole(memory_[i].size(), untouched);
      std::copy(expected.begin(), expected.end(),
                whole.begin() + static_cast<std::ptrdiff_t>(begins_[i]));
      if (memory_[i] != whole) return false;
    }
    return true;
  }
  /// The pointers are behind the last elements.
  bool passed() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (places[i] != memory_[i].data() + begins_[i] + bytes_) return false;
    }
    return true;
  }

  std::vector<void*> places;

 private:
  std::size_t bytes_;
  std::vector<Bytes> memory_;
  std::vector<std::size_t> begins_;
};

std::vector<const void*> addresses(const std::vector<Bytes>& all) {
  std::vector<const void*> found(all.size());
  std::transform(all.begin(), all.end(), found.begin(),
                 [](const Bytes& one) { return one.data(); });
  return found;
}

}  // namespace

TEST_CASE("each of several outputs gets the result, wherever it lies") {
  std::mt19937_64 random(11);
  for (const Kernel& kernel : all_kernels(3)) {
    for (const std::size_t count : {0U, 1U, 7U, 64U, 255U, 256U, 257U, 1024U, 3001U}) {
      const std::size_t n = 1 + random() % 9;
      const std::vector<Bytes> sources = random_sources(kernel.in, n, count, random);
      const Bytes expected = reduced(kernel, sources, count);
      const bool streaming = random() % 2 == 0;
      // All alike, as in segments that ranks share, or each in its own way.
      std::vector<std::size_t> misalignments(1 + random() % 9, random() % 3 * size_of(kernel.out));
      if (random() % 2 == 0) std::generate(misalignments.begin(), misalignments.end(), random);
      at_every_level([&] {
        CAPTURE(name(kernel.op), name(kernel.in), name(kernel.out), n, count, streaming);
        Outputs outputs(misalignments, expected.size());
        std::vector<const void*> from = addresses(sources);
        tutti::reduce::reduce_to_all(kernel, from, outputs.places, count, streaming);
        REQUIRE(outputs.hold(expected));
        REQUIRE(outputs.passed());
      });
    }
  }
}

TEST_CASE("outputs may take the places of all sources") {
  std::mt19937_64 random(12);
  for (const Kernel& kernel : all_kernels(5)) {
    if (size_of(kernel.in) != size_of(kernel.out)) continue;
    const std::size_t n = 1 + random() % 9;
    const std::size_t count = 1 + random() % 5000;
    const bool streaming = random() % 2 == 0;
    const std::vector<Bytes> sources = random_sources(kernel.in, n, count, random);
    const Bytes expected = reduced(kernel, sources, count);
    at_every_level([&] {
      CAPTURE(name(kernel.op), name(kernel.in), name(kernel.out), n, count, streaming);
      std::vector<Bytes> memory = sources;
      std::vector<const void*> from = addresses(memory);
      std::vector<void*> to(n);
      std::transform(memory.begin(), memory.end(), to.begin(),
                     [](Bytes& one) { return one.data(); });
      tutti::reduce::reduce_to_all(kernel, from, to, count, streaming);
      REQUIRE(std::all_of(memory.begin(), memory.end(),
                          [&](const Bytes& one) { return one == expected; }));
    });
  }
}
