#include "kvstore/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kvstore/checks.h"
#include "kvstore/key_calls.h"
#include "reduce/reduce.h"

namespace tutti {
namespace {

/// Works for any alignment of the program's memory.
template <typename T>
std::vector<double> read_as(const Tensor& ids) {
  std::vector<T> exact(ids.count());
  if (ids.bytes() > 0) std::memcpy(exact.data(), ids.data(), ids.bytes());
  return {exact.begin(), exact.end()};
}

std::vector<double> read_16_bits(const Tensor& ids) {
  std::vector<float> wide(ids.count());
  const void* const from = ids.data();
  if (!wide.empty()) {
    reduce::reduce({.in = ids.dtype(), .out = DType::f32}, {&from, 1}, wide.data(), wide.size());
  }
  return {wide.begin(), wide.end()};
}

/// Reads the ids as doubles. A double holds the number of every row that a tensor in memory can
/// have.
std::vector<double> read(const Tensor& ids) {
  switch (ids.dtype()) {
    case DType::f16:
    case DType::bf16:
      return read_16_bits(ids);
    case DType::f32:
      return read_as<float>(ids);
    case DType::f64:
      return read_as<double>(ids);
    case DType::i8:
      return read_as<std::int8_t>(ids);
    case DType::u8:
      return read_as<std::uint8_t>(ids);
    case DType::i32:
      return read_as<std::int32_t>(ids);
    case DType::i64:
      return read_as<std::int64_t>(ids);
    default:
      return {};
  }
}

}  // namespace

std::vector<std::int64_t> rows_of(const MethodCall& call, std::size_t i) {
  const Key& key = call.keys[i];
  const Tensor& ids = call.row_ids[i];
  const Shape& shape = call.outs[i][0].shape();
  if (ids.device().kind == Device::Kind::gpu) {
    refuse(call, key,
           fmt::format("the row ids are on {}; copy them to the CPU first", name(ids.device())));
  }
  if (shape.dims().empty()) refuse(call, key, "a scalar has no rows; call pull");
  const auto count = static_cast<double>(shape.dims()[0]);
  std::vector<std::int64_t> rows;
  for (const double id : read(ids)) {
    if (!(id >= 0 && id < count && std::trunc(id) == id)) {
      refuse(call, key,
             fmt::format("{} is no row of {}; its {} rows count from 0", id,
                         describe(call.outs[i][0]), shape.dims()[0]));
    }
    rows.push_back(static_cast<std::int64_t>(id));
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

void copy_rows(std::span<const std::int64_t> rows, const Tensor& from, const Tensor& to) {
  if (to.bytes() == 0) return;
  const std::size_t bytes = to.bytes() / static_cast<std::size_t>(to.shape().dims()[0]);
  std::memset(to.data(), 0, to.bytes());
  for (const std::int64_t row : rows) {
    const std::size_t at = static_cast<std::size_t>(row) * bytes;
    std::memcpy(to.as<std::byte>() + at, from.as<const std::byte>() + at, bytes);
  }
}

}  // namespace tutti
