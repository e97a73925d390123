#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

/// Encodes gradients in one or two bits an element, with error feedback: the part that a call
/// leaves out stays in the residual, and the next call adds it. Pure functions over memory, like
/// the kernels of reduce.h.
namespace tutti::reduce {

enum class Code : std::uint8_t {
  /// Sends 1 if the residual is above the threshold, else -1. 32 elements a word.
  one_bit,
  /// Sends +threshold, 0 or -threshold. 16 elements a word. An element that is NaN or infinite is
  /// sent as NaN, and leaves no residual.
  two_bits,
};

/// The number of words that `count` elements take.
constexpr std::size_t words_for(Code code, std::size_t count) {
  const std::size_t in_word = code == Code::one_bit ? 32 : 16;
  return (count + in_word - 1) / in_word;
}

/// Adds the gradient to the residual, subtracts the sent values from it, and writes the sent values
/// into `words_for(code, count)` words. Element i is at bit i of the words, or at bits 2i and 2i+1.
/// The last word is filled up with zeros. Returns false if an element is not finite and the code is
/// one bit, which cannot send it; then nothing has changed.
bool quantise(Code code, float threshold, std::span<const float> gradient, float* residual,
              std::uint32_t* words);

/// Decodes the words.
void dequantise(Code code, float threshold, const std::uint32_t* words, std::span<float> values);

}  // namespace tutti::reduce
