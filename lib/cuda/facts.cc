#include "cuda/facts.h"

#include <fmt/format.h>

#include <functional>

#include "cuda/driver.h"
#include "cuda/kernels.h"
#include "cuda/nccl_library.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

/// The result of `say`, or the text of its error.
std::string said_or_error(const std::function<std::string()>& say) {
  try {
    return say();
  } catch (const Error& error) {
    return error.what();
  }
}

std::string driver_version() {
  int version = 0;
  checked(driver().cuDriverGetVersion(&version), "cuDriverGetVersion", -1);
  return fmt::format("offers CUDA {}.{}; tutti was built with {}.{}", version / 1000,
                     version % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
}

std::string describe(const GpuName& name) {
  return fmt::format("{}, {}: {}", name.model, name.uuid, said_or_error([&] {
                       const Gpu gpu(name.ordinal);
                       const Kernels kernels(gpu);
                       return std::string("runs tutti's kernels");
                     }));
}

std::string nccl_version() {
  const NcclLibrary nccl;
  return fmt::format("{} in {}", nccl.version_text(), nccl.path().string());
}

}  // namespace

std::vector<Fact> facts() {
  std::vector<Fact> facts{{"CUDA driver", said_or_error(driver_version)}};
  try {
    for (const GpuName& gpu : list_gpus()) {
      facts.push_back({fmt::format("gpu({})", gpu.ordinal), describe(gpu)});
    }
  } catch (const Error& error) {
    facts.push_back({"GPUs", error.what()});
  }
  facts.push_back({"NCCL", said_or_error(nccl_version)});
  return facts;
}

}  // namespace tutti::cuda
