#include "kvstore/types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/names.h"
#include "base/printable.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::string_view collective_name = "dist_sync_mpi";

struct NamedType {
  std::string_view name;
  Family family;
  bool asynchronous = false;
};

constexpr auto types = std::to_array<NamedType>({
    {collective_name, Family::collective},
    {"dist", Family::parameter_server},
    {"dist_sync", Family::parameter_server},
    {"dist_async", Family::parameter_server, true},
    {"dist_sync_device", Family::parameter_server},
    {"dist_device_sync", Family::parameter_server},
    {"dist_async_device", Family::parameter_server, true},
    {"dist_device_async", Family::parameter_server, true},
    {"local", Family::local},
    {"local_update_cpu", Family::local},
    {"local_allreduce_cpu", Family::local},
    {"device", Family::device},
    {"local_allreduce_device", Family::device},
    {"nccl", Family::nccl},
});

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

[[noreturn]] void refuse_unknown(std::string_view type, const std::string& lower) {
  std::array<std::string_view, types.size()> names;
  std::transform(types.begin(), types.end(), names.begin(),
                 [](const NamedType& e) { return e.name; });
  throw Error(ErrorCode::invalid_argument,
              fmt::format("store type {} is not known{} (known: {})", base::quoted(type),
                          base::suggestion(lower, names), fmt::join(names, ", ")));
}

StoreType under_mpi(const NamedType& entry) {
  if (!entry.asynchronous) return {std::string(collective_name), Family::collective};
  throw Error(ErrorCode::unsupported,
              fmt::format("store type '{}' needs a parameter server, and this job was started with "
                          "--mode mpi (TUTTI_MODE=mpi), which starts none; start it with --mode "
                          "ps, or ask for '{}'",
                          entry.name, collective_name));
}

[[noreturn]] void refuse_under_servers(const NamedType& entry) {
  throw Error(ErrorCode::unsupported,
              fmt::format("store type '{}' needs the processes of one MPI job, and this job was "
                          "started with --mode ps (TUTTI_MODE=ps), in which each would work alone; "
                          "start it with --mode mpi, or ask for 'dist_sync'",
                          entry.name));
}

}  // namespace

StoreType find_store_type(std::string_view type, LaunchMode mode) {
  const std::string lower = lower_case(type);
  const auto* const entry =
      std::find_if(types.begin(), types.end(), [&](const NamedType& e) { return e.name == lower; });
  if (entry == types.end()) refuse_unknown(type, lower);
  if (mode == LaunchMode::mpi && entry->family == Family::parameter_server) {
    return under_mpi(*entry);
  }
  if (mode == LaunchMode::ps && entry->family == Family::collective) refuse_under_servers(*entry);
  return {lower, entry->family, entry->asynchronous};
}

}  // namespace tutti
