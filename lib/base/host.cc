#include "base/host.h"

#include <sys/utsname.h>

#include <fstream>

namespace tutti::base {

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? static_cast<const char*>(names.nodename) : "?";
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
