#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/device_stream.h"
#include "tutti/export.h"

namespace tutti {

/// Element types. f16 is IEEE binary16, bf16 the upper half of an f32. b8 to b128 are elements of
/// so many bits that the store moves and never adds: booleans, complex numbers, unsigned and 16-bit
/// integers, 8-bit floats, and any other.
enum class DType : std::uint8_t { f16, bf16, f32, f64, i8, u8, i32, i64, b8, b16, b32, b64, b128 };

/// Whether a store can add, average and compare the elements.
constexpr bool is_arithmetic(DType dtype) {
  return dtype < DType::b8;
}

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  constexpr std::array<std::size_t, 13> sizes{2, 2, 4, 8, 1, 1, 4, 8, 1, 2, 4, 8, 16};
  return sizes[static_cast<std::size_t>(dtype)];
}
/// "f16", "bf16", "f32", ...
TUTTI_EXPORT std::string_view name(DType dtype);

/// Where a tensor's memory is. `cpu` devices with different indices are the "several CPU devices"
/// of one process: tutti sums over them like over GPUs.
struct Device {
  enum class Kind : std::uint8_t { cpu, gpu };
  Kind kind = Kind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu(0)", "gpu(1)".
TUTTI_EXPORT std::string name(Device device);

/// Dimensions, at most `max_rank` of them. No dimension: a scalar, one element.
class TUTTI_EXPORT Shape {
 public:
  static constexpr std::size_t max_rank = 8;
  Shape() = default;
  /// Throws `invalid_argument` for more than `max_rank` dimensions, a negative one, or a product
  /// that does not fit 63 bits.
  Shape(std::initializer_list<std::int64_t> dims);  // NOLINT(google-explicit-constructor)
  explicit Shape(std::span<const std::int64_t> dims);

  std::span<const std::int64_t> dims() const { return {dims_.data(), rank_}; }
  /// Number of elements: the product of the dimensions.
  std::size_t count() const { return count_; }
  /// "(2, 3)".
  std::string describe() const;
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < a.rank_; ++i) {
      if (a.dims_[i] != b.dims_[i]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, max_rank> dims_{};
  std::size_t rank_ = 0;
  std::size_t count_ = 1;
};

/// A contiguous, row-major array of elements. One made from a plain pointer borrows its memory: the
/// caller keeps it alive until the call's `Pending` is done. One made from a `shared_ptr` shares
/// it, as tensors from `KVStore::allocate` do. Either way the caller does not touch the elements
/// until the call is done; from then on the store holds no copy of the tensor.
///
/// Memory of a GPU belongs to the device's primary context or to a memory pool. Work that the
/// program has enqueued on the device may still be writing an input or reading an output at the
/// call: `on` names its stream. Without a stream the program has waited for all such work.
class TUTTI_EXPORT Tensor {
 public:
  Tensor() = default;
  /// `data` may be null only when `shape` has no elements. Any alignment is accepted. Throws
  /// `invalid_argument` for null data otherwise, and for a size whose bytes do not fit 63 bits.
  Tensor(void* data, Shape shape, DType dtype, Device device = {});
  /// The deleter of `owned` runs on the thread that drops the last copy. If that is a
  /// `dist_sync_mpi` store, because a call ended or the store died or was closed, all but a
  /// `QuickDeleter` run like a callback of `Pending::then`: on the communication thread, before the
  /// `Pending` is done. They may submit and ask the store anything, but not wait, nor own its last
  /// reference. They may take a lock that the program holds while it submits, but none held in a
  /// wait for the same call. They must not throw: what a dead store throws at a call they catch.
  Tensor(std::shared_ptr<void> owned, Shape shape, DType dtype, Device device = {});

  void* data() const { return data_; }
  /// Keeps the memory alive; null when it is borrowed.
  const std::shared_ptr<void>& owner() const { return owner_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  /// The same tensor for a call whose reads and writes of it come after all work that is in the
  /// stream at the call. The call does not wait for that work. Throws `invalid_argument` for a
  /// tensor that is not on a GPU.
  Tensor on(DeviceStream stream) const;
  DeviceStream stream() const { return stream_; }
  /// Elements and bytes.
  std::size_t count() const { return shape_.count(); }
  std::size_t bytes() const { return shape_.count() * size_of(dtype_); }

 private:
  friend class Values;
  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
  Shape shape_{0};
  DType dtype_ = DType::f32;
  Device device_;
  DeviceStream stream_;
};

/// What one key carries in a call: one tensor, or one tensor for each device of this process.
class Values {
 public:
  Values() = default;
  // NOLINTBEGIN(google-explicit-constructor)
  Values(Tensor tensor) : one_(std::move(tensor)), is_one_(true) {}
  Values(std::initializer_list<Tensor> tensors) : is_one_(tensors.size() == 1) {
    if (is_one_) {
      one_ = *tensors.begin();
    } else {
      several_ = tensors;
    }
  }
  Values(std::vector<Tensor> tensors) : several_(std::move(tensors)) {}
  // NOLINTEND(google-explicit-constructor)
  ~Values() = default;
  Values(const Values&) = default;
  Values(Values&&) noexcept = default;
  Values& operator=(const Values& other) {
    one_ = other.one_;
    // Skipped in the usual case, in which both are empty.
    if (several_.size() + other.several_.size() > 0) several_ = other.several_;
    is_one_ = other.is_one_;
    return *this;
  }
  Values& operator=(Values&&) noexcept = default;

  std::size_t size() const { return is_one_ ? 1 : several_.size(); }
  bool empty() const { return size() == 0; }
  const Tensor& operator[](std::size_t i) const { return begin()[i]; }
  const Tensor* begin() const { return is_one_ ? &one_ : several_.data(); }
  const Tensor* end() const { return begin() + size(); }
  /// Drops the tensors, but keeps the memory of their list.
  void clear() {
    one_.owner_.reset();
    several_.clear();
    is_one_ = false;
  }

 private:
  // A single tensor, the usual case, needs no memory from the heap.
  Tensor one_;
  std::vector<Tensor> several_;
  bool is_one_ = false;
};

}  // namespace tutti
