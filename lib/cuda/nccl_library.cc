#include "cuda/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cuda/nccl_functions.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

constexpr const char* soname = "libnccl.so.2";
constexpr const char* toolkit = "/usr/local/cuda/lib64/libnccl.so.2";
/// The first version with ncclCommInitRankConfig.
constexpr int oldest = NCCL_VERSION(2, 14, 0);

void* load(const std::string& path) {
  constexpr int mode = RTLD_NOW | RTLD_LOCAL;
  if (!path.empty()) {
    if (void* const given = ::dlopen(path.c_str(), mode)) return given;
    throw Error(ErrorCode::unsupported, fmt::format("cannot load NCCL: {}", ::dlerror()));
  }
  if (void* const loaded = ::dlopen(soname, mode | RTLD_NOLOAD)) return loaded;
  if (void* const found = ::dlopen(soname, mode)) return found;
  const std::string reason = ::dlerror();
  if (void* const found = ::dlopen(toolkit, mode)) return found;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("no NCCL: the process has loaded none, {}, and there is no {}", reason, toolkit));
}

std::filesystem::path path_of(void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string text_of(int version) {
  const bool old = version < 10000;  // up to version 2.8 NCCL counted in another way
  return fmt::format("{}.{}.{}", version / (old ? 1000 : 10000),
                     version % (old ? 1000 : 10000) / 100, version % 100);
}

template <typename Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

NcclFunctions find_all(void* library) {
  NcclFunctions functions;
#define TUTTI_FIND(name) find(library, functions.name, #name);
  TUTTI_NCCL_FUNCTIONS(TUTTI_FIND)
#undef TUTTI_FIND
  return functions;
}

}  // namespace

NcclLibrary::NcclLibrary(const std::string& path) {
  const NcclFunctions functions = find_all(load(path));
  if (functions.ncclGetVersion != nullptr) {
    functions.ncclGetVersion(&version_);
    path_ = path_of(reinterpret_cast<void*>(functions.ncclGetVersion));
  }
  if (version_ < oldest) {
    throw Error(ErrorCode::unsupported,
                fmt::format("NCCL {} in {} is too old: tutti needs {}", text_of(version_),
                            path_.string(), text_of(oldest)));
  }
#define TUTTI_CHECK(name)                                                                      \
  if (functions.name == nullptr) {                                                             \
    throw Error(ErrorCode::unsupported,                                                        \
                fmt::format("NCCL {} in {} lacks {}", version_text(), path_.string(), #name)); \
  }
  TUTTI_NCCL_FUNCTIONS(TUTTI_CHECK)
#undef TUTTI_CHECK
  functions_ = std::make_shared<const NcclFunctions>(functions);
}

std::string NcclLibrary::version_text() const {
  return text_of(version_);
}

ncclConfig_t config_for(int version) {
  struct Known {
    int since;
    std::size_t size;
  };
  static constexpr std::array sizes{
      Known{NCCL_VERSION(2, 28, 0), sizeof(ncclConfig_t)},
      Known{NCCL_VERSION(2, 27, 0), offsetof(ncclConfig_t, nChannelsPerNetPeer)},
      Known{NCCL_VERSION(2, 26, 0), offsetof(ncclConfig_t, commName)},
      Known{NCCL_VERSION(2, 18, 0), offsetof(ncclConfig_t, trafficClass)},
      Known{NCCL_VERSION(2, 17, 0), offsetof(ncclConfig_t, splitShare)},
      Known{NCCL_VERSION(2, 14, 0), offsetof(ncclConfig_t, cgaClusterSize)}};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const auto* const known =
      std::ranges::find_if(sizes, [&](const Known& one) { return version >= one.since; });
  config.size = known == sizes.end() ? sizes.back().size : known->size;
  config.version = static_cast<unsigned>(std::min(version, NCCL_VERSION_CODE));
  return config;
}

}  // namespace tutti::cuda
