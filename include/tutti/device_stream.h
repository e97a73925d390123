#pragma once
#include <cstdint>

// CUDA declares it so. `cudaStream_t` and `CUstream` are pointers to it.
struct CUstream_st;

namespace tutti {

/// Refers to a CUDA stream of the program, or to none. It tells the store which work on the device
/// comes before a call (`Tensor::on`) and which work comes after it (`Pending::wait_on`). Programs
/// need no header of CUDA to use it.
///
/// Ownership: the program owns the stream. It may destroy the stream as soon as the method that got
/// it has returned.
///
/// Default streams: as everywhere in CUDA, the two default streams are those of the calling thread
/// and its device. The methods of `KVStore` and `Pending` look them up on the thread that calls.
class DeviceStream {
 public:
  /// Refers to no stream.
  DeviceStream() = default;
  /// Null is CUDA's default stream. tutti takes it for the legacy default stream. Programs that are
  /// compiled for per-thread default streams mean another stream by null; the legacy default stream
  /// is in order with that one, too.
  // NOLINTNEXTLINE(google-explicit-constructor)
  DeviceStream(CUstream_st* handle) : handle_(handle != nullptr ? handle : numbered(1)) {}

  /// The two default streams. CUDA and DLPack give them the numbers 1 and 2.
  static DeviceStream legacy() { return numbered(1); }
  static DeviceStream per_thread() { return numbered(2); }

  bool is_none() const { return handle_ == nullptr; }
  /// The handle that CUDA's functions take; null if it refers to no stream.
  CUstream_st* handle() const { return handle_; }
  friend bool operator==(const DeviceStream&, const DeviceStream&) = default;

 private:
  static CUstream_st* numbered(std::uintptr_t number) {
    return reinterpret_cast<CUstream_st*>(number);  // NOLINT(performance-no-int-to-ptr)
  }

  CUstream_st* handle_ = nullptr;
};

}  // namespace tutti
