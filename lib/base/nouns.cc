// The public nouns that need a source file: errors, keys, names, shapes, tensors, shards, version.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/printable.h"
#include "tutti/collective_kind.h"
#include "tutti/error.h"
#include "tutti/key.h"
#include "tutti/reduce_op.h"
#include "tutti/shard.h"
#include "tutti/tensor.h"
#include "tutti/version.h"
#include "tutti/wire_format.h"

namespace tutti {

const char* version() {
  return TUTTI_VERSION;
}

const char* build_type() {
  return TUTTI_BUILD_TYPE;
}

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(base::printable(message)), code_(code) {}

Error::Error(ErrorCode code, const std::string& message, Subject subject) : Error(code, message) {
  if (!subject.key && subject.ranks.empty()) return;
  std::sort(subject.ranks.begin(), subject.ranks.end());
  subject_ = std::make_shared<const Subject>(std::move(subject));
}

const Key* Error::key() const noexcept {
  return subject_ && subject_->key ? &*subject_->key : nullptr;
}

std::span<const int> Error::ranks() const noexcept {
  if (!subject_) return {};
  return subject_->ranks;
}

Key::Key(const char* value) {
  if (value == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "a key is a null pointer (const char*); pass an integer or a string");
  }
  value_ = std::string(value);
}

std::string Key::describe() const {
  return is_integer() ? std::to_string(integer()) : base::quoted(string());
}

std::string_view name(ReduceOp op) {
  static constexpr std::string_view names[] = {"sum", "average", "min", "max"};
  return names[static_cast<std::size_t>(op)];
}

std::string_view name(CollectiveKind kind) {
  static constexpr std::string_view names[] = {"pushpull",  "broadcast",  "reduce_scatter",
                                               "allgather", "all_to_all", "barrier"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(WireFormat format) {
  static constexpr std::string_view names[] = {"none", "fp16", "bf16"};
  return names[static_cast<std::size_t>(format)];
}

std::string_view name(ErrorCode code) {
  static constexpr std::string_view names[] = {"ok",        "invalid_argument", "unsupported",
                                               "mismatch",  "duplicate_key",    "timeout",
                                               "peer_lost", "aborted",          "internal"};
  return names[static_cast<std::size_t>(code)];
}

std::string_view name(DType dtype) {
  static constexpr std::string_view names[] = {"f16", "bf16", "f32", "f64", "i8",  "u8",  "i32",
                                               "i64", "b8",   "b16", "b32", "b64", "b128"};
  return names[static_cast<std::size_t>(dtype)];
}

std::string name(Device device) {
  return fmt::format("{}({})", device.kind == Device::Kind::cpu ? "cpu" : "gpu", device.index);
}

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(dims.size()) {
  if (rank_ > max_rank) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a shape has {} dimensions, but may have at most {}", rank_, max_rank));
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("shape {} has a negative dimension", describe()));
    }
    const auto most = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
    const auto factor = static_cast<std::size_t>(dim);
    if (factor != 0 && count_ > most / factor) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("shape {} has more elements than fit 63 bits", describe()));
    }
    count_ *= factor;
  }
}

std::string Shape::describe() const {
  return fmt::format("({})", fmt::join(dims(), ", "));
}

Tensor::Tensor(void* data, Shape shape, DType dtype, Device device)
    : data_(data), shape_(shape), dtype_(dtype), device_(device) {
  if (dtype > DType::b128) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a tensor of shape {} has dtype number {}, which does not exist",
                            shape.describe(), static_cast<int>(dtype)));
  }
  if (data == nullptr && shape.count() > 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a tensor of {} {} has no memory (null pointer)", name(dtype),
                            shape.describe()));
  }
  if (shape.count() > std::numeric_limits<std::int64_t>::max() / size_of(dtype)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a tensor of {} {} has more bytes than fit 63 bits", name(dtype),
                            shape.describe()));
  }
}

Tensor Tensor::on(DeviceStream stream) const {
  if (device_.kind != Device::Kind::gpu) {
    throw Error(ErrorCode::invalid_argument,
                "a tensor on " + name(device_) +
                    " cannot have a stream, because streams order work on GPUs; pass the tensor "
                    "without a stream");
  }
  Tensor tensor = *this;
  tensor.stream_ = stream;
  return tensor;
}

Tensor::Tensor(std::shared_ptr<void> owned, Shape shape, DType dtype, Device device)
    : Tensor(owned.get(), shape, dtype, device) {
  owner_ = std::move(owned);
}

Shard shard(std::size_t count, int rank, int size) {
  if (size < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a tensor has shards for at least one rank, not for {}", size));
  }
  if (rank < 0 || rank >= size) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("rank {} has no shard: the ranks are 0 to {}", rank, size - 1));
  }
  const auto n = static_cast<std::size_t>(size);
  // This is floor(count * r / n), without the product, which may not fit.
  const auto boundary = [&](std::size_t r) { return count / n * r + count % n * r / n; };
  const auto r = static_cast<std::size_t>(rank);
  return {boundary(r), boundary(r + 1)};
}

}  // namespace tutti
