#include "base/host.h"

#include <sys/utsname.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace tutti::base {

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? static_cast<const char*>(names.nodename) : "?";
}

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::error_code unreadable;
  const std::string network =
      std::filesystem::read_symlink("/proc/self/ns/net", unreadable).string();
  if (!std::getline(file, boot) || unreadable) return host_name();
  return boot + " " + network;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname names{};
  return ::uname(&names) == 0 ? static_cast<const char*>(names.machine) : "?";
}

}  // namespace tutti::base
