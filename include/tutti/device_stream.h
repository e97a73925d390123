#pragma once
#include <cstdint>

// As CUDA declares it: a `cudaStream_t` and a `CUstream` are pointers to it.
struct CUstream_st;

namespace tutti {

/// A CUDA stream of the program's, or none. It tells the store which work on the device comes
/// before a call (`Tensor::on`) and which after it (`Pending::wait_on`). No header of CUDA's is
/// needed. The caller owns the stream, and may destroy it once the method that got it has returned.
/// As everywhere in CUDA the two default streams mean those of the calling thread and its device,
/// so `KVStore`'s and `Pending`'s methods look at them on the thread that calls.
class DeviceStream {
 public:
  /// None.
  DeviceStream() = default;
  /// Null is CUDA's default stream. It is taken for the legacy one, which is also in order with the
  /// streams that programs compiled for per-thread default streams mean by null.
  // NOLINTNEXTLINE(google-explicit-constructor)
  DeviceStream(CUstream_st* handle) : handle_(handle != nullptr ? handle : numbered(1)) {}

  /// The default streams, by the numbers that CUDA and DLPack give them: 1 and 2.
  static DeviceStream legacy() { return numbered(1); }
  static DeviceStream per_thread() { return numbered(2); }

  bool is_none() const { return handle_ == nullptr; }
  /// CUDA's functions take this for it; null if there is none.
  CUstream_st* handle() const { return handle_; }
  friend bool operator==(const DeviceStream&, const DeviceStream&) = default;

 private:
  static CUstream_st* numbered(std::uintptr_t number) {
    return reinterpret_cast<CUstream_st*>(number);  // NOLINT(performance-no-int-to-ptr)
  }

  CUstream_st* handle_ = nullptr;
};

}  // namespace tutti
