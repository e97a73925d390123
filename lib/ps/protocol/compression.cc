#include "ps/protocol/compression.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/names.h"
#include "base/own_tensor.h"
#include "base/printable.h"
#include "reduce/quantise.h"
#include "reduce/reduce.h"

namespace tutti::ps {
namespace {

constexpr std::array encodings{Encoding::none, Encoding::fp16, Encoding::bf16, Encoding::two_bits,
                               Encoding::one_bit};

bool is_quantised(Encoding encoding) {
  return encoding == Encoding::two_bits || encoding == Encoding::one_bit;
}

reduce::Code code_of(Encoding encoding) {
  return encoding == Encoding::one_bit ? reduce::Code::one_bit : reduce::Code::two_bits;
}

DType dtype_of(Encoding encoding) {
  return encoding == Encoding::fp16 ? DType::f16 : DType::bf16;
}

void convert(const void* from, DType in, void* to, DType out, std::size_t count) {
  reduce::reduce({.in = in, .out = out}, {&from, 1}, to, count);
}

Encoding encoding_named(std::string_view kind) {
  std::vector<std::string_view> names;
  for (const Encoding encoding : encodings) {
    if (name(encoding) == kind) return encoding;
    names.push_back(name(encoding));
  }
  throw Error(ErrorCode::unsupported,
              fmt::format("gradient compression {} is not known{}; parameter servers have "
                          "'none', 'fp16', 'bf16', '2bit' and '1bit'",
                          base::quoted(kind), base::suggestion(kind, names)));
}

/// The words of which quantised elements are made. In a message they may lie at any address.
std::vector<std::uint32_t> words_of(std::span<const std::byte> data) {
  std::vector<std::uint32_t> words(data.size() / sizeof(std::uint32_t));
  std::memcpy(words.data(), data.data(), data.size());
  return words;
}

}  // namespace

Compression compression_named(std::string_view kind, double threshold) {
  const Encoding encoding = encoding_named(kind);
  if (!is_quantised(encoding)) return {encoding, 0};
  const auto narrow = static_cast<float>(threshold);
  const bool may_be_zero = encoding == Encoding::one_bit;
  if (std::isfinite(narrow) && (narrow > 0 || (may_be_zero && narrow == 0))) {
    return {encoding, narrow};
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("gradient compression '{}': the threshold is {}, and must be a finite "
                          "number {}",
                          kind, threshold, may_be_zero ? "of 0 or more" : "above 0"));
}

bool can_carry(Encoding encoding, DType dtype) {
  if (encoding == Encoding::none) return true;
  if (!is_quantised(encoding)) return dtype == DType::f32;
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::size_t encoded_bytes(Encoding encoding, DType dtype, std::size_t count) {
  if (encoding == Encoding::none) return count * size_of(dtype);
  if (!is_quantised(encoding)) return count * size_of(dtype_of(encoding));
  return reduce::words_for(code_of(encoding), count) * sizeof(std::uint32_t);
}

Tensor decoded(const Contribution& said, std::size_t count) {
  const Encoding encoding = said.compression.encoding;
  Tensor elements = base::own_tensor({static_cast<std::int64_t>(count)}, said.dtype);
  if (!is_quantised(encoding)) {
    convert(said.data.data(), dtype_of(encoding), elements.data(), said.dtype, count);
    return elements;
  }
  std::vector<float> values(count);
  reduce::dequantise(code_of(encoding), said.compression.threshold, words_of(said.data).data(),
                     values);
  convert(values.data(), DType::f32, elements.data(), said.dtype, count);
  return elements;
}

float* Compressor::residual(const Contribution& said, const Shard& piece) {
  std::vector<float>& whole = residuals_[said.piece.key];
  // If the tensor has another size, its residual has no meaning for this one.
  if (whole.size() != said.shape.count()) whole.assign(said.shape.count(), 0);
  return whole.data() + piece.begin;
}

bool Compressor::quantise(const Contribution& said, const Compression& how, const Shard& piece) {
  std::vector<float> gradient(piece.count());
  convert(said.data.data(), said.dtype, gradient.data(), DType::f32, gradient.size());
  const reduce::Code code = code_of(how.encoding);
  std::vector<std::uint32_t> words(reduce::words_for(code, gradient.size()));
  float* const left = residual(said, piece);
  if (!reduce::quantise(code, how.threshold, gradient, left, words.data())) return false;
  std::memcpy(encoded_.data(), words.data(), encoded_.size());
  return true;
}

void Compressor::compress(Contribution& said, const Compression& how, const Shard& piece) {
  const bool is_gradient = said.kind == Kind::push || said.kind == Kind::pushpull;
  const bool is_sum = said.op == ReduceOp::sum || said.op == ReduceOp::average;
  if (how.encoding == Encoding::none || !is_gradient || !is_sum) return;
  if (!can_carry(how.encoding, said.dtype) || piece.count() == 0) return;
  encoded_.resize(encoded_bytes(how.encoding, said.dtype, piece.count()));
  if (!is_quantised(how.encoding)) {
    convert(said.data.data(), said.dtype, encoded_.data(), dtype_of(how.encoding), piece.count());
  } else if (!quantise(said, how, piece)) {
    return;
  }
  said.compression = how;
  said.data = encoded_;
}

}  // namespace tutti::ps
