#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cuda/gpu.h"

struct CUctx_st;

namespace tutti::cuda {

// Any thread may create and destroy these objects. That breaks no capture.

/// Memory of the device. Its contents are undefined at first. Any thread may make and destroy it.
/// Both may wait for all work of the device.
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

/// Host memory that the device itself reads and writes, so that copies run beside the host. It is
/// pinned for all devices. Any thread may use it.
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

/// Pins memory that already exists, such as a mapping, as long as this object lives. If CUDA
/// refuses to pin memory, the memory stays as it is; copies still work, but more slowly. Any thread
/// may use it.
class Registration {
 public:
  /// Logs a refusal. Throws for sticky errors of the device.
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

/// The place of memory, as the driver knows it.
struct Location {
  enum class Kind : std::uint8_t {
    host,     ///< also memory that the driver does not know
    device,   ///< of one GPU
    managed,  ///< CUDA moves it between host and device
  };
  Kind kind = Kind::host;
  bool is_pinned = false;       ///< host memory that CUDA has allocated or registered
  int ordinal = -1;             ///< of device and managed memory
  CUctx_st* context = nullptr;  ///< device memory's; null: it comes from a pool and belongs to none
};

/// Asks the driver, which must have been initialised, in about a microsecond. Any thread may call
/// it.
Location locate(const void* pointer);

}  // namespace tutti::cuda
