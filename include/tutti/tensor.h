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

/// Element types. f16 is IEEE binary16, and bf16 is the upper half of an f32. A store moves
/// elements of b8 to b128, which have 8 to 128 bits, but does not add them. They stand for all
/// other types: booleans, complex numbers, unsigned and 16-bit integers, 8-bit floats and so on.
enum class DType : std::uint8_t { f16, bf16, f32, f64, i8, u8, i32, i64, b8, b16, b32, b64, b128 };

/// Whether a store can add, average and compare elements of this type. True for all but b8 to b128.
constexpr bool is_arithmetic(DType dtype) {
  return dtype < DType::b8;
}

/// The bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  constexpr std::array<std::size_t, 13> sizes{2, 2, 4, 8, 1, 1, 4, 8, 1, 2, 4, 8, 16};
  return sizes[static_cast<std::size_t>(dtype)];
}
/// "f16", "bf16", "f32", ...
TUTTI_EXPORT std::string_view name(DType dtype);

/// The place of a tensor's memory. CPU devices with different indices stand for several devices of
/// one process: tutti sums over them as it sums over GPUs.
struct Device {
  enum class Kind : std::uint8_t { cpu, gpu };
  Kind kind = Kind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu(0)", "gpu(1)".
TUTTI_EXPORT std::string name(Device device);

/// The dimensions of a tensor, at most `max_rank`. A shape without dimensions is a scalar, which
/// has one element.
class TUTTI_EXPORT Shape {
 public:
  static constexpr std::size_t max_rank = 8;
  Shape() = default;
  /// Throws `invalid_argument` for more than `max_rank` dimensions, for a negative dimension, and
  /// for dimensions whose product does not fit 63 bits.
  Shape(std::initializer_list<std::int64_t> dims);  // NOLINT(google-explicit-constructor)
  explicit Shape(std::span<const std::int64_t> dims);

  std::span<const std::int64_t> dims() const { return {dims_.data(), rank_}; }
  /// The number of elements: the product of the dimensions.
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

/// A contiguous, row-major array of elements.
///
/// Ownership: a tensor that is made from a plain pointer borrows its memory. The caller keeps that
/// memory alive until the `Pending` of the call is done. A tensor that is made from a `shared_ptr`
/// shares its memory, and so do tensors from `KVStore::allocate`. In both cases the caller must not
/// touch the elements until the call is done. Then the store no longer refers to the memory.
///
/// GPUs: the memory must belong to the device's primary context or to a memory pool. A program may
/// make a call while work that it has enqueued on the device still writes an input or reads an
/// output. It then names the stream of that work by `on`. If it names no stream, it must wait for
/// all such work before the call.
class TUTTI_EXPORT Tensor {
 public:
  Tensor() = default;
  /// Borrows the memory at `data`, which may have any alignment. `data` may be null only if `shape`
  /// has no elements. Throws `invalid_argument` for any other null pointer, and for a size in bytes
  /// that does not fit 63 bits.
  Tensor(void* data, Shape shape, DType dtype, Device device = {});
  /// Shares the memory of `owned`. The deleter of `owned` runs on the thread that drops the last
  /// copy.
  ///
  /// A `dist_sync_mpi` store may drop the last copy: when a call ends, or when the store ends or is
  /// closed. The deleter then runs like a callback of `Pending::then`: on the communication thread,
  /// before the `Pending` is done. (Only a `QuickDeleter` runs elsewhere; see its header.) Such a
  /// deleter:
  /// - may submit calls to the store and ask it anything;
  /// - must not wait for a call, nor own the last reference to the store;
  /// - may take a lock that the program holds while it submits, but no lock that the program holds
  ///   while it waits for the same call;
  /// - must not throw. It must catch the errors that a call of a dead store throws.
  Tensor(std::shared_ptr<void> owned, Shape shape, DType dtype, Device device = {});

  void* data() const { return data_; }
  /// Keeps the memory alive. Null if the tensor borrows its memory.
  const std::shared_ptr<void>& owner() const { return owner_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  /// Returns the same tensor with a stream. A call that gets it reads and writes the tensor only
  /// after all work that is in the stream at the time of the call. The call itself does not wait
  /// for that work. Throws `invalid_argument` if the tensor is not on a GPU.
  Tensor on(DeviceStream stream) const;
  DeviceStream stream() const { return stream_; }
  /// The number of elements, and of bytes.
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

/// The tensors of one key in a call: one tensor, or one tensor for each device of this process.
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
    // In the usual case both lists are empty, and nothing is copied.
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
  /// Drops the tensors, but keeps the memory of the list for later use.
  void clear() {
    one_.owner_.reset();
    several_.clear();
    is_one_ = false;
  }

 private:
  // One tensor is the usual case, and needs no memory from the heap.
  Tensor one_;
  std::vector<Tensor> several_;
  bool is_one_ = false;
};

}  // namespace tutti
