#include "base/mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "base/huge_pages.h"
#include "base/pages.h"

namespace tutti::base {
namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

std::optional<std::size_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// The limit of one control group minus its usage. Page cache that could be dropped counts as used,
/// which errs on the safe side.
std::size_t room_in_group(const std::string& limit, const std::string& usage) {
  const auto most = read_number(limit);
  const auto used = read_number(usage);
  if (!most || !used) return unlimited;
  return *most > *used ? *most - *used : 0;
}

/// The memory that is left in the control groups of this process and their parents: v2 ("0::/a/b")
/// and v1 ("9:memory:/a/b").
std::size_t room_in_groups() {
  std::size_t room = unlimited;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto path_at = line.find(":/");
    if (path_at == std::string::npos) continue;
    const bool v2 = line.starts_with("0::");
    if (!v2 && line.find(":memory:") == std::string::npos) continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string most = v2 ? "/memory.max" : "/memory.limit_in_bytes";
    const std::string used = v2 ? "/memory.current" : "/memory.usage_in_bytes";
    std::string path = line.substr(path_at + 1);
    for (;;) {
      if (path == "/") path.clear();
      room = std::min(room, room_in_group(root + path + most, root + path + used));
      if (path.empty()) break;
      path.resize(path.rfind('/'));
    }
  }
  return room;
}

std::size_t machine_available() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    if (word != "MemAvailable:") continue;
    std::size_t kibibytes = 0;
    file >> kibibytes;
    return kibibytes << 10;
  }
  return unlimited;
}

Error unmappable(std::size_t bytes) {
  return system_failure(
      fmt::format("map {} bytes of shared memory (a range of addresses; "
                  "`ulimit -v` shows how much a process may have)",
                  bytes));
}

/// A container's seccomp filter may refuse the call. The kernel's own text does not say so.
Error uncreatable(const std::string& label) {
  const int number = errno;
  Error error = system_failure("create shared memory for " + label, number);
  if (number != EPERM && number != ENOSYS) return error;
  return reworded(error, fmt::format("{}; memfd_create is refused, as by a container's "
                                     "seccomp filter: let the filter allow it",
                                     error.what()));
}

/// Reserves a range of addresses without memory behind it. If a huge page fits into it, it begins
/// at a boundary of huge pages.
std::byte* keep_addresses(std::size_t bytes) {
  const std::size_t whole = whole_pages(bytes);
  const std::size_t huge = bytes < huge_page_bytes() ? 0 : huge_page_bytes();
  void* const found =
      ::mmap(nullptr, whole + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) throw unmappable(bytes);
  auto* const begin = static_cast<std::byte*>(found);
  if (huge == 0) return begin;
  const std::size_t ahead = -reinterpret_cast<std::uintptr_t>(begin) % huge;
  if (ahead > 0) ::munmap(begin, ahead);
  ::munmap(begin + ahead + whole, huge - ahead);
  return begin + ahead;
}

}  // namespace

std::size_t available_memory() {
  return std::min(machine_available(), room_in_groups());
}

Fd create_memory_file(const std::string& label, std::size_t bytes) {
  // Above this limit ftruncate does not fail, but kills the process (SIGXFSZ).
  rlimit largest_file{};
  ::getrlimit(RLIMIT_FSIZE, &largest_file);
  if (bytes > largest_file.rlim_cur) {
    throw Error(ErrorCode::internal,
                fmt::format("cannot make the shared memory for {} {} bytes large: files of this "
                            "process may have at most {} bytes (`ulimit -f` shows the limit in "
                            "KiB)",
                            label, bytes, largest_file.rlim_cur));
  }
  Fd file(::memfd_create(("tutti-" + label).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw uncreatable(label);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    throw system_failure(fmt::format("size the shared memory for {} to {} bytes", label, bytes));
  }
  // If one process made the file shorter, the others would die of a SIGBUS.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    throw system_failure("keep the size of the shared memory for " + label);
  }
  return file;
}

void check_available(std::size_t bytes, std::string_view remedy) {
  if (const std::size_t room = available_memory(); bytes > room) {
    throw Error(
        ErrorCode::internal,
        fmt::format("there is not enough memory for a shared segment: it needs {} bytes, and {} "
                    "are left; {}start fewer ranks on this machine, or give the machine or the "
                    "container more memory",
                    bytes, room, remedy));
  }
}

void reserve(const Fd& file, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  // This is checked first, because above a control group's limit posix_fallocate does not fail, but
  // brings the OOM killer.
  check_available(bytes);
  const int result =
      ::posix_fallocate(file.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (result != 0) {
    throw system_failure(fmt::format("reserve {} bytes of shared memory", bytes), result);
  }
}

Mapping::Mapping(const Fd& file, std::size_t bytes) : size_(bytes) {
  // Pages beyond the end of a file can be mapped, but touching them raises a SIGBUS.
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw system_failure("look at shared memory");
  if (static_cast<std::size_t>(status.st_size) != bytes) {
    throw Error(ErrorCode::internal,
                fmt::format("shared memory of {} bytes is to be mapped as {}: the ranks that "
                            "share it do not agree on its contents",
                            status.st_size, bytes));
  }
  std::byte* const room = keep_addresses(bytes);
  if (::mmap(room, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
             file.get(), 0) == MAP_FAILED) {
    const Error error = unmappable(bytes);
    ::munmap(room, bytes);
    throw error;
  }
  data_ = room;
  ::madvise(data_, size_, MADV_DONTDUMP);
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::shared_ptr<Mapping> map_file(const Fd& file, std::size_t bytes) {
  return std::make_shared<Mapping>(file, bytes);
}

}  // namespace tutti::base
