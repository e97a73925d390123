#include "reduce/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tutti::reduce {
namespace {

/// Calls `work` for the elements [begin, end) of each word in turn.
template <typename Work>
void for_words(Code code, std::size_t count, Work work) {
  const std::size_t in_word = code == Code::one_bit ? 32 : 16;
  for (std::size_t begin = 0, word = 0; begin < count; begin += in_word, ++word) {
    work(word, begin, std::min(begin + in_word, count));
  }
}

void quantise_two_bits(float threshold, std::span<const float> gradient, float* residual,
                       std::uint32_t* words) {
  for_words(
      Code::two_bits, gradient.size(), [&](std::size_t at, std::size_t begin, std::size_t end) {
        std::uint32_t word = 0;
        for (std::size_t i = begin; i < end; ++i) {
          const float value = residual[i] + gradient[i];
          const bool up = value >= threshold;
          const bool down = value <= -threshold;
          const bool none = !std::isfinite(value);
          residual[i] = none ? 0 : value - (up ? threshold : 0.0F) + (down ? threshold : 0.0F);
          word |= (static_cast<std::uint32_t>(up || none) | static_cast<std::uint32_t>(down || none)
                                                                << 1U)
                  << 2 * (i - begin);
        }
        words[at] = word;
      });
}

void quantise_one_bit(float threshold, std::span<const float> gradient, float* residual,
                      std::uint32_t* words) {
  for_words(Code::one_bit, gradient.size(),
            [&](std::size_t at, std::size_t begin, std::size_t end) {
              std::uint32_t word = 0;
              for (std::size_t i = begin; i < end; ++i) {
                const float value = residual[i] + gradient[i];
                const bool up = value > threshold;
                residual[i] = value + (up ? -1.0F : 1.0F);
                word |= static_cast<std::uint32_t>(up) << (i - begin);
              }
              words[at] = word;
            });
}

}  // namespace

bool quantise(Code code, float threshold, std::span<const float> gradient, float* residual,
              std::uint32_t* words) {
  if (code == Code::two_bits) {
    quantise_two_bits(threshold, gradient, residual, words);
    return true;
  }
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (!std::isfinite(residual[i] + gradient[i])) return false;
  }
  quantise_one_bit(threshold, gradient, residual, words);
  return true;
}

void dequantise(Code code, float threshold, const std::uint32_t* words, std::span<float> values) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const std::array<float, 4> meaning = code == Code::one_bit
                                           ? std::array<float, 4>{-1, 1, 0, 0}
                                           : std::array<float, 4>{0, threshold, -threshold, none};
  const std::size_t bits = code == Code::one_bit ? 1 : 2;
  const std::uint32_t mask = (1U << bits) - 1;
  for_words(code, values.size(), [&](std::size_t at, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      values[i] = meaning.at(words[at] >> bits * (i - begin) & mask);
    }
  });
}

}  // namespace tutti::reduce
