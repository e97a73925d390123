#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cuda/gpu.h"

struct CUctx_st;

namespace tutti::cuda {

// On any thread, creating and destroying these objects breaks no capture.

/// Memory of the device. Its contents are undefined at first. Made and destroyed on any thread;
/// both may wait for all work of the device.
class DeviceMemory {
 public:
  DeviceMemory(const Gpu& gpu, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const Gpu& gpu_;
  void* data_ = nullptr;
  std::size_t size_;
};

/// Host memory that the device reads and writes by itself, so that copies run beside the host.
/// Pinned for all devices. Any thread.
class PinnedMemory {
 public:
  PinnedMemory(const Gpu& gpu, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::span<std::byte> span() const { return {data_, size_}; }

 private:
  const Gpu& gpu_;
  std::byte* data_ = nullptr;
  std::size_t size_;
};

/// Pins memory that there is already, such as a mapping, for as long as it lives. Memory that CUDA
/// refuses to pin stays as it is: copies work all the same, only slower. Any thread.
class Registration {
 public:
  /// Writes a refusal to the log. Throws for sticky errors of the device.
  Registration(const Gpu& gpu, std::span<std::byte> memory);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  bool is_pinned() const { return pinned_; }

 private:
  const Gpu& gpu_;
  std::span<std::byte> memory_;
  bool pinned_ = false;
};

/// Where memory is, as the driver knows it.
struct Location {
  enum class Kind : std::uint8_t {
    host,     ///< also what the driver does not know
    device,   ///< of one GPU
    managed,  ///< CUDA moves it between host and device
  };
  Kind kind = Kind::host;
  bool is_pinned = false;       ///< host memory that CUDA has allocated or registered
  int ordinal = -1;             ///< of device and managed memory
  CUctx_st* context = nullptr;  ///< device memory's; null: it comes from a pool and belongs to none
};

/// Asks the driver, which must have been initialised, in about a microsecond. Any thread.
Location locate(const void* pointer);

}  // namespace tutti::cuda
