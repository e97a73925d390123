#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

struct CUctx_st;

/// GPUs, through CUDA's driver API, which is loaded when a function here first needs it. A process
/// that calls none of them has no CUDA context, no thread and no memory of CUDA's. Every function
/// throws `unsupported` in a build without CUDA, and if there is no driver or no device. It throws
/// `internal` for every other error of CUDA; the text names the device, the call and CUDA's error.
/// Errors of the device itself, such as an illegal address, are sticky: from then on every call
/// reports them.
///
/// "Current context": CUDA keeps a stack of contexts for each thread, and most of its calls work on
/// the top one. Functions that say so need the GPU's context there: a thread of tutti calls
/// `set_current` once, a thread of the program is in a `ContextGuard`.
namespace tutti::cuda {

/// Whether this tutti was built with CUDA.
bool is_built();

struct GpuName {
  int ordinal = 0;
  std::string uuid;  ///< "GPU-8a1c...": the same in every process, whatever CUDA_VISIBLE_DEVICES
  std::string model;
};

/// The devices that CUDA shows this process. Initialises CUDA.
std::vector<GpuName> list_gpus();

/// The ordinal of the device whose context is current on the calling thread. Nothing if there is
/// none or no driver. Never loads the driver nor initialises CUDA.
std::optional<int> current_gpu();

/// A device with its primary context, which it retains. CUDA's runtime uses the same context, and
/// so do the frameworks. The owner destroys its streams, memory and other objects of the device
/// before it. Thread-safe.
class Gpu {
 public:
  /// Initialises CUDA. If nobody has made the primary context, makes it, which takes some tenths of
  /// a second and some hundred MiB of the device. Throws `invalid_argument` for a device that does
  /// not exist.
  explicit Gpu(int ordinal);
  /// Releases the context. The last owner destroys it.
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int ordinal() const { return name_.ordinal; }
  const GpuName& name() const { return name_; }
  CUctx_st* context() const { return context_; }
  /// The number of multiprocessors that run kernels.
  int multiprocessors() const { return multiprocessors_; }
  /// The memory of the device that is free at this moment. Needs the current context.
  std::size_t free_bytes() const;

 private:
  GpuName name_;
  int device_ = 0;
  int multiprocessors_ = 0;
  CUctx_st* context_ = nullptr;
};

/// Makes the GPU's context current on the calling thread for a scope.
class ContextGuard {
 public:
  explicit ContextGuard(const Gpu& gpu);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  int ordinal_;
};

/// Makes the GPU's context the current one of the calling thread, from now on.
void set_current(const Gpu& gpu);

/// From now on the calling thread may call CUDA while another thread captures a graph, and does not
/// invalidate the capture. Without this, a mere query of an event does.
void relax_capture_mode();

/// Does the same for a scope, on threads of the program.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int before_ = 0;
};

}  // namespace tutti::cuda
