// Modules, and launches of their kernels.
#include <cstdint>

#include "calls.h"
#include "kernel_table.h"

using namespace standin;

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const Call call = enter("cuModuleLoadData", context | no_capture);
  if (call.refused) return *call.refused;
  constexpr std::uint32_t fatbin_magic = 0xBA55ED50;
  if (*static_cast<const std::uint32_t*>(image) != fatbin_magic) return CUDA_ERROR_INVALID_IMAGE;
  *module = reinterpret_cast<CUmodule>(current());
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule) {
  const Call call = enter("cuModuleUnload", initialised | no_capture);
  return call.refused.value_or(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  const Call call = enter("cuModuleGetFunction", context);
  if (call.refused) return *call.refused;
  *function = reinterpret_cast<CUfunction>(const_cast<Kernel*>(find_kernel(name)));
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads,
                        unsigned, unsigned, unsigned, CUstream handle, void** parameters, void**) {
  const Call call = enter("cuLaunchKernel", context | enqueues);
  if (call.refused) return *call.refused;
  Stream* const stream = find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == 0 || threads == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto* const kernel = reinterpret_cast<const Kernel*>(function);
  const auto* const bytes = static_cast<const std::byte*>(parameters[0]);
  const std::vector<std::byte> argument(bytes, bytes + kernel->argument_bytes);
  give(*stream, call, Engine::kernel, kernel->bytes(argument.data()),
       [kernel, argument, blocks, threads] {
         for (unsigned i = 0; i < blocks * threads; ++i) {
           kernel->run(argument.data(), blocks, threads, i / threads, i % threads);
         }
         return CUDA_SUCCESS;
       });
  return CUDA_SUCCESS;
}

}  // extern "C"
