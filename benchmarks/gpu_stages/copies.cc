#include <algorithm>
#include <memory>
#include <string>

#include "base/mapping.h"
#include "benchmarks/gpu_stages/bench.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace tutti::bench::gpu {
namespace {

/// Two pieces of host memory of one kind: one is copied to the device, and the other one receives
/// data from it.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  virtual std::span<std::byte> up() = 0;
  virtual std::span<std::byte> down() = 0;
  /// Whether copies run beside the caller.
  virtual bool is_pinned() const = 0;
};

class Pinned : public HostMemory {
 public:
  Pinned(const cuda::Gpu& gpu, std::size_t bytes) : up_(gpu, bytes), down_(gpu, bytes) {}
  std::span<std::byte> up() override { return up_.span(); }
  std::span<std::byte> down() override { return down_.span(); }
  bool is_pinned() const override { return true; }

 private:
  cuda::PinnedMemory up_;
  cuda::PinnedMemory down_;
};

/// Memory like that of the arenas that ranks share.
class Shared : public HostMemory {
 public:
  Shared(const cuda::Gpu& gpu, std::size_t bytes) : up_(map(bytes)), down_(map(bytes)) {
    pinned_up_ = std::make_unique<cuda::Registration>(gpu, up_.span());
    pinned_down_ = std::make_unique<cuda::Registration>(gpu, down_.span());
  }
  std::span<std::byte> up() override { return up_.span(); }
  std::span<std::byte> down() override { return down_.span(); }
  bool is_pinned() const override { return pinned_up_->is_pinned() && pinned_down_->is_pinned(); }

 private:
  static base::Mapping map(std::size_t bytes) {
    const base::Fd file = base::create_memory_file("gpu_stages", bytes);
    base::reserve(file, 0, bytes);
    return {file, bytes};
  }

  base::Mapping up_;
  base::Mapping down_;
  std::unique_ptr<cuda::Registration> pinned_up_;
  std::unique_ptr<cuda::Registration> pinned_down_;
};

class Pageable : public HostMemory {
 public:
  explicit Pageable(std::size_t bytes) : up_(bytes), down_(bytes) {}
  std::span<std::byte> up() override { return up_; }
  std::span<std::byte> down() override { return down_; }
  bool is_pinned() const override { return false; }

 private:
  std::vector<std::byte> up_;
  std::vector<std::byte> down_;
};

std::unique_ptr<HostMemory> make(const std::string& kind, const cuda::Gpu& gpu, std::size_t bytes) {
  if (kind == "pinned") return std::make_unique<Pinned>(gpu, bytes);
  if (kind == "registered") return std::make_unique<Shared>(gpu, bytes);
  return std::make_unique<Pageable>(bytes);
}

/// Host memory, device memory and a stream for each direction.
class Scene {
 public:
  Scene(const Bench& bench, HostMemory& host)
      : bench_(bench),
        host_(host),
        bytes_(host.up().size()),
        into_(bench.gpu, bytes_),
        from_(bench.gpu, bytes_),
        up_(bench.gpu),
        down_(bench.gpu) {
    const std::span<std::byte> pattern = host_.up();
    for (std::size_t i = 0; i < bytes_; ++i) pattern[i] = static_cast<std::byte>(i * 31 / 7);
    up_.copy_to_device(from_.data(), host_.up().data(), bytes_);
    up_.synchronize();
    std::ranges::fill(host_.down(), std::byte{0});
  }

  /// GB/s in each direction. Small copies follow each other without a pause, like the chunks of a
  /// pipeline.
  double rate(bool goes_up, bool goes_down) const {
    constexpr std::size_t at_once = std::size_t{32} << 20;
    const std::size_t copies = std::max<std::size_t>(1, at_once / bytes_);
    const double seconds = median_seconds(bench_.seconds, [&] {
      for (std::size_t i = 0; i < copies; ++i) {
        if (goes_up) up_.copy_to_device(into_.data(), host_.up().data(), bytes_);
        if (goes_down) down_.copy_to_host(host_.down().data(), from_.data(), bytes_);
      }
      up_.synchronize();
      down_.synchronize();
    });
    return static_cast<double>(copies * bytes_) / seconds / 1e9;
  }

  /// Compares the bytes that came back from the device with those that went there.
  bool is_right() const {
    if (!std::ranges::equal(host_.up(), host_.down())) return false;
    std::ranges::fill(host_.down(), std::byte{0});
    down_.copy_to_host(host_.down().data(), into_.data(), bytes_);
    down_.synchronize();
    return std::ranges::equal(host_.up(), host_.down());
  }

 private:
  const Bench& bench_;
  HostMemory& host_;
  std::size_t bytes_;
  cuda::DeviceMemory into_;
  cuda::DeviceMemory from_;
  cuda::Stream up_;
  cuda::Stream down_;
};

}  // namespace

void measure_copies(const Bench& bench) {
  for (const std::string kind : {"pinned", "registered", "pageable"}) {
    if (!bench.memory.empty() && kind != bench.memory) continue;
    for (const std::size_t bytes : bench.sizes) {
      const auto host = make(kind, bench.gpu, bytes);
      const Scene scene(bench, *host);
      bench.meet();
      nlohmann::ordered_json row{
          {"part", "copies"}, {"memory", kind}, {"is_pinned", host->is_pinned()}, {"bytes", bytes}};
      row["to_device_GBps"] = scene.rate(true, false);
      row["to_host_GBps"] = scene.rate(false, true);
      // Copies of memory that is not pinned hold up the caller, so that the two directions take
      // turns.
      if (host->is_pinned()) row["each_way_at_once_GBps"] = scene.rate(true, true);
      row["wrong"] = scene.is_right() ? 0 : 1;
      bench.print(row);
    }
  }
}

}  // namespace tutti::bench::gpu
