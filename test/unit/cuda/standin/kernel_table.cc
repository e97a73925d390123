#include "kernel_table.h"

#include <array>

#include "shim.h"
// This comes after the shim, which it needs.
#include "cuda/kernels.cu"

namespace standin {
namespace {

using tutti::cuda::KernelArguments;

template <void (*kernel)(KernelArguments)>
void run(const void* argument, unsigned blocks, unsigned threads, unsigned block, unsigned thread) {
  gridDim.x = blocks;
  blockDim.x = threads;
  blockIdx.x = block;
  threadIdx.x = thread;
  kernel(*static_cast<const KernelArguments*>(argument));
}

template <class In, class Out>
std::size_t bytes(const void* argument) {
  const auto& arguments = *static_cast<const KernelArguments*>(argument);
  return arguments.count *
         (arguments.source_count * sizeof(typename In::Bits) + sizeof(typename Out::Bits));
}

struct Named {
  const char* name;
  Kernel kernel;
};

using namespace tutti::cuda::kernels;
#define NAMED(op, in, out)             \
  Named{"tutti_" #op "_" #in "_" #out, \
        {sizeof(KernelArguments), &run<tutti_##op##_##in##_##out>, &bytes<in, out>}},
const std::array kernels{TUTTI_KERNELS(NAMED)};

}  // namespace

const Kernel* find_kernel(const std::string& name) {
  for (const Named& named : kernels) {
    if (name == named.name) return &named.kernel;
  }
  return nullptr;
}

}  // namespace standin
