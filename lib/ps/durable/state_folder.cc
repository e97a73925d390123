#include "ps/durable/state_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/exposure.h"
#include "base/failure.h"
#include "base/posix_disk.h"
#include "base/printable.h"
#include "ps/durable/state_files.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

namespace fs = std::filesystem;

constexpr mode_t folder_for_owner = 0700;
constexpr mode_t file_for_owner = 0600;

[[noreturn]] void refuse_folder(const std::string& folder, const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the folder {} of a server's state cannot be used: {}",
                          base::quoted(folder), why));
}

std::string reason_of(int number) {
  return std::generic_category().message(number);
}

base::Fd opened(const fs::path& path) {
  return base::Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/// Makes the folder, and the folders above it. Other servers of the job may do the same at the same
/// time.
void make(const fs::path& path) {
  std::error_code unknown;
  if (!path.has_relative_path() || fs::is_directory(path, unknown)) return;
  make(path.parent_path());
  if (::mkdir(path.c_str(), folder_for_owner) == 0 || errno == EEXIST) return;
  const int reason = errno;
  refuse_folder(path.string(), reason_of(reason));
}

/// Writes the names of the folders above this one to the disk. Otherwise a power cut could lose the
/// folder with all its files. If this process may not read a folder above, the folder was not
/// created here.
void sync_above(const fs::path& path) {
  for (fs::path one = path; one.has_relative_path(); one = one.parent_path()) {
    const base::Fd above = opened(one.parent_path());
    if (!above || base::sync_names(above)) continue;
    throw base::system_failure(
        fmt::format("write the folder {}", base::quoted(one.parent_path().string())));
  }
}

std::shared_ptr<base::PosixDisk> disk_of(const std::string& folder) {
  base::Fd file = opened(folder);
  const int reason = errno;
  if (!file) refuse_folder(folder, reason_of(reason));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw base::system_failure("look at a folder");
  const std::string exposed = base::exposure(status);
  if (!exposed.empty()) refuse_folder(folder, exposed);
  return std::make_shared<base::PosixDisk>(folder, std::move(file), file_for_owner);
}

void check_count(const base::Disk& disk, int servers) {
  const std::set<int> counts = server_counts(disk);
  if (counts.empty() || counts.contains(servers)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the folder {0} has the state of {1} servers, but this job has {2}; to "
                          "spread the state over {2} servers, give an empty folder, and "
                          "--restore {0}",
                          base::quoted(disk.path()), fmt::join(counts, " and of "), servers));
}

/// For how long a server waits for a lock. A process that a server has just forked to write a
/// checkpoint has copies of the locks of all servers of its parent, until it closes them.
constexpr auto lock_wait = std::chrono::seconds(1);
constexpr auto lock_pause = std::chrono::milliseconds(10);

/// Takes the lock, and returns 0 or the reason why it cannot be taken.
int take(const base::Fd& lock) {
  const base::Clock::time_point deadline = base::Clock::now() + lock_wait;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    if (reason != EWOULDBLOCK || base::Clock::now() > deadline) return reason;
    std::this_thread::sleep_for(lock_pause);
  }
  return 0;
}

/// Takes the lock on a server's files. The lock holds until the descriptor is closed.
base::Fd locked(const base::PosixDisk& disk, int rank, int servers) {
  const std::string name = lock_of(rank, servers);
  const std::string path = base::quoted(disk.path(name));
  base::Fd lock(::openat(disk.folder().get(), name.c_str(),
                         O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, file_for_owner));
  if (!lock) {
    const int reason = errno;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the folder {} for a server's state cannot be written: {}",
                            base::quoted(disk.path()), reason_of(reason)));
  }
  const int reason = take(lock);
  if (reason == 0) return lock;
  if (reason == EWOULDBLOCK) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("another process uses the state {}; is the server still running, or "
                            "do two servers have the same DMLC_RANK?",
                            path));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the state {} cannot be locked: {}; without a lock two servers could "
                          "write over each other's files, so keep the state on a file system that "
                          "has flock",
                          path, reason_of(reason)));
}

}  // namespace

StatePlace state_place(const std::string& folder, int rank, int servers) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  make(whole);
  sync_above(whole);
  std::shared_ptr<base::PosixDisk> disk = disk_of(folder);
  check_count(*disk, servers);
  base::Fd lock = locked(*disk, rank, servers);
  auto writer = std::make_unique<ForkedWriter>(*disk);
  return {std::move(lock), std::move(disk), std::move(writer)};
}

std::shared_ptr<base::Disk> state_folder(const std::string& folder) {
  return disk_of(folder);
}

}  // namespace tutti::ps
