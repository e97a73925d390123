#include "cuda/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cuda/driver.h"
#include "cuda/kernel_arguments.h"
#include "cuda/kernels_fatbin.h"  // made of kernels.cu
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

constexpr unsigned threads = 256;

struct Conversion {
  DType in;
  DType out;
};
constexpr std::array conversions{
    Conversion{DType::f16, DType::f16}, Conversion{DType::bf16, DType::bf16},
    Conversion{DType::f32, DType::f32}, Conversion{DType::f64, DType::f64},
    Conversion{DType::i8, DType::i8},   Conversion{DType::u8, DType::u8},
    Conversion{DType::i32, DType::i32}, Conversion{DType::i64, DType::i64},
    Conversion{DType::f16, DType::f32}, Conversion{DType::bf16, DType::f32},
    Conversion{DType::f32, DType::f16}, Conversion{DType::f32, DType::bf16}};

CUmodule load(const Gpu& gpu) {
  const ContextGuard context(gpu);
  const RelaxedCapture relaxed;
  CUmodule module = nullptr;
  const CUresult result = driver().cuModuleLoadData(&module, tutti_kernels);
  if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
      result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND) {
    int version = 0;
    driver().cuDriverGetVersion(&version);
    throw Error(
        ErrorCode::unsupported,
        fmt::format("the CUDA driver is too old for gpu({}) ({}): it offers CUDA {}.{}, and "
                    "tutti's kernels were built with CUDA {}.{}; install a newer driver",
                    gpu.ordinal(), gpu.name().model, version / 1000, version % 1000 / 10,
                    CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10));
  }
  checked(result, "cuModuleLoadData", gpu.ordinal());
  return module;
}

std::size_t index_of(ReduceOp op) {
  return op == ReduceOp::min ? 1 : op == ReduceOp::max ? 2 : 0;
}

/// The number of blocks. There are enough to keep each multiprocessor busy. Each thread goes on
/// where all other threads end.
unsigned blocks_for(std::size_t count, int multiprocessors) {
  const std::size_t most = 16 * static_cast<std::size_t>(multiprocessors);
  return static_cast<unsigned>(std::clamp<std::size_t>((count + threads - 1) / threads, 1, most));
}

void check_arguments(const reduce::Kernel& kernel, std::size_t sources, CUfunc_st* function) {
  if (sources > 0 && sources <= most_sources && function != nullptr) return;
  throw Error(ErrorCode::internal, fmt::format("no kernel for a GPU from {} sources of {} to {}",
                                               sources, name(kernel.in), name(kernel.out)));
}

}  // namespace

Kernels::Kernels(const Gpu& gpu) : gpu_(gpu), module_(load(gpu)) {
  const ContextGuard context(gpu);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
    for (const auto [in, out] : conversions) {
      const std::string kernel =
          fmt::format("tutti_{}_{}_{}", tutti::name(op), tutti::name(in), tutti::name(out));
      checked(driver().cuModuleGetFunction(&function(op, in, out), module_, kernel.c_str()),
              "cuModuleGetFunction", gpu.ordinal());
    }
  }
}

Kernels::~Kernels() {
  try {
    const ContextGuard context(gpu_);
    const RelaxedCapture relaxed;
    logged(driver().cuModuleUnload(module_), "cuModuleUnload", gpu_.ordinal());
  } catch (const Error&) {
    // The device has failed or the driver is unloaded, and the module with it.
  }
}

CUfunc_st*& Kernels::function(ReduceOp op, DType in, DType out) {
  const auto place = index_of(op) * dtypes + static_cast<std::size_t>(in);
  return functions_[place * dtypes + static_cast<std::size_t>(out)];
}

CUfunc_st* Kernels::function(ReduceOp op, DType in, DType out) const {
  return const_cast<Kernels*>(this)->function(op, in, out);
}

void Kernels::reduce(CUstream_st* stream, const reduce::Kernel& kernel,
                     std::span<const void* const> sources, void* dst, std::size_t count) const {
  CUfunc_st* const loop = function(kernel.op, kernel.in, kernel.out);
  check_arguments(kernel, sources.size(), loop);
  if (count == 0) return;
  const bool divides = kernel.op == ReduceOp::average && kernel.divisor != 1;
  if (sources.size() == 1 && kernel.in == kernel.out && !divides) {
    checked(driver().cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(dst),
                                       reinterpret_cast<CUdeviceptr>(sources[0]),
                                       count * size_of(kernel.in), stream),
            "cuMemcpyDtoDAsync", gpu_.ordinal());
    return;
  }
  if (divides) reduce::check_divisor(kernel);
  KernelArguments arguments{.sources = {},
                            .dst = dst,
                            .count = count,
                            .divisor = divides ? kernel.divisor : 1,
                            .source_count = static_cast<std::uint32_t>(sources.size())};
  std::copy(sources.begin(), sources.end(), arguments.sources);
  std::array<void*, 1> parameters{&arguments};
  checked(driver().cuLaunchKernel(loop, blocks_for(count, gpu_.multiprocessors()), 1, 1, threads, 1,
                                  1, 0, stream, parameters.data(), nullptr),
          "cuLaunchKernel", gpu_.ordinal());
}

}  // namespace tutti::cuda
