#include "cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "base/log.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

/// The first version of CUDA whose cuGetProcAddress has its present form.
constexpr int oldest_driver = 12000;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int version_of(void* library) {
  const auto get_version =
      reinterpret_cast<PFN_cuDriverGetVersion_v2020>(::dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (get_version != nullptr) get_version(&version);
  return version;
}

class Loader {
 public:
  /// The library stays loaded: it has threads of its own and functions that run at exit.
  Loader() : library_(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) {
      throw Error(ErrorCode::unsupported, fmt::format("no CUDA driver: {}", ::dlerror()));
    }
    get_address_ =
        reinterpret_cast<PFN_cuGetProcAddress_v12000>(::dlsym(library_, "cuGetProcAddress_v2"));
    if (get_address_ == nullptr) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("the CUDA driver is too old: it offers CUDA {}, and tutti needs {}",
                              version_text(version_of(library_)), version_text(oldest_driver)));
    }
  }

  template <typename Function>
  void find(Function& function, const char* name, int version) const {
    void* address = nullptr;
    CUdriverProcAddressQueryResult status{};
    // Streams of the program that have handles of their own mean the same in both modes. The legacy
    // stream is CUDA's default.
    const CUresult result =
        get_address_(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
    if (result != CUDA_SUCCESS || address == nullptr) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("the CUDA driver is too old: it offers CUDA {} and lacks {} of {}",
                              version_text(version_of(library_)), name, version_text(version)));
    }
    function = reinterpret_cast<Function>(address);
  }

 private:
  void* library_;
  PFN_cuGetProcAddress_v12000 get_address_ = nullptr;
};

DriverFunctions load() {
  const Loader loader;
  DriverFunctions driver;
#define TUTTI_FIND(name, version) loader.find(driver.name, #name, version);
  TUTTI_DRIVER_FUNCTIONS(TUTTI_FIND)
#undef TUTTI_FIND
  return driver;
}

std::string describe(CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver().cuGetErrorName(result, &name);
  driver().cuGetErrorString(result, &text);
  if (name == nullptr) return fmt::format("CUDA error {}", static_cast<int>(result));
  return fmt::format("{} ({})", name, text != nullptr ? text : "no description");
}

std::string failure(CUresult result, const char* call, int ordinal) {
  const std::string device = ordinal < 0 ? "" : fmt::format("gpu({}): ", ordinal);
  return fmt::format("{}{} failed: {}", device, call, describe(result));
}

}  // namespace

const DriverFunctions& driver() {
  static const DriverFunctions loaded = load();
  return loaded;
}

const DriverFunctions& initialised_driver() {
  static const DriverFunctions& initialised = [&]() -> const DriverFunctions& {
    const CUresult result = driver().cuInit(0);
    if (result == CUDA_SUCCESS) return driver();
    throw Error(ErrorCode::unsupported, "CUDA cannot be used: " + failure(result, "cuInit", -1));
  }();
  return initialised;
}

void checked(CUresult result, const char* call, int ordinal) {
  if (result == CUDA_SUCCESS) [[likely]]
    return;
  throw Error(ErrorCode::internal, failure(result, call, ordinal));
}

void logged(CUresult result, const char* call, int ordinal) noexcept {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return;
  base::log().warn("{}", failure(result, call, ordinal));
}

}  // namespace tutti::cuda
