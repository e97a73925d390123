#include "base/posix_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/exposure.h"
#include "base/failure.h"
#include "base/printable.h"
#include "base/regular_file.h"
#include "tutti/error.h"

namespace tutti::base {
namespace {

class Written : public WritableFile {
 public:
  explicit Written(Fd file) : file_(std::move(file)) {}

  bool append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return true;
  }
  bool truncate(std::uint64_t size) override {
    return ::ftruncate(file_.get(), static_cast<off_t>(size)) == 0;
  }
  bool sync() override { return ::fdatasync(file_.get()) == 0; }

 private:
  const Fd file_;
};

class Read : public ReadableFile {
 public:
  Read(std::string path, Fd file, std::uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  std::uint64_t size() const override { return size_; }
  std::size_t read(std::uint64_t offset, std::span<std::byte> into) const override {
    std::size_t done = 0;
    while (done < into.size()) {
      const auto rest = into.subspan(done);
      const ssize_t got =
          ::pread(file_.get(), rest.data(), rest.size(), static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw system_failure(fmt::format("read {}", printable(path_)));
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  const std::string path_;
  const Fd file_;
  const std::uint64_t size_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", printable(path), why));
}

struct stat status_of(const std::string& path, const Fd& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) == 0) return status;
  throw system_failure(fmt::format("read {}", printable(path)));
}

}  // namespace

PosixDisk::PosixDisk(const std::string& path, Fd folder, mode_t mode)
    : Disk(path), folder_(std::move(folder)), mode_(mode) {}

std::vector<std::string> PosixDisk::names() const {
  Fd list(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const entries = list ? ::fdopendir(list.get()) : nullptr;
  std::vector<std::string> names;
  if (entries != nullptr) {
    list.release();
    errno = 0;
    while (const dirent* const entry = ::readdir(entries)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
  }
  const int reason = errno;
  if (entries != nullptr) ::closedir(entries);
  if (entries != nullptr && reason == 0) return names;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the folder {} cannot be read: {}", base::quoted(path()),
                          std::generic_category().message(reason)));
}

std::unique_ptr<ReadableFile> PosixDisk::open(const std::string& name) const {
  RegularFile opened = open_regular(folder_, name, O_RDONLY);
  if (!opened.file) refuse(path(name), opened.failure);
  const struct stat status = status_of(path(name), opened.file);
  const std::string exposed = exposure(status);
  if (!exposed.empty()) refuse(path(name), exposed);
  return std::make_unique<Read>(path(name), std::move(opened.file),
                                static_cast<std::uint64_t>(status.st_size));
}

std::unique_ptr<WritableFile> PosixDisk::create(const std::string& name) {
  constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  Fd file(::openat(folder_.get(), name.c_str(), flags, mode_));
  return file ? std::make_unique<Written>(std::move(file)) : nullptr;
}

bool PosixDisk::rename(const std::string& from, const std::string& to) {
  return ::renameat(folder_.get(), from.c_str(), folder_.get(), to.c_str()) == 0;
}

bool PosixDisk::remove(const std::string& name) {
  return ::unlinkat(folder_.get(), name.c_str(), 0) == 0;
}

bool PosixDisk::sync() {
  return sync_names(folder_);
}

bool sync_names(const Fd& folder) {
  return ::fsync(folder.get()) == 0 || errno == EINVAL;
}

std::unique_ptr<ReadableFile> open_to_read(const std::string& path) {
  RegularFile opened = open_regular(path, O_RDONLY);
  if (!opened.file) refuse(path, opened.failure);
  const struct stat status = status_of(path, opened.file);
  return std::make_unique<Read>(path, std::move(opened.file),
                                static_cast<std::uint64_t>(status.st_size));
}

}  // namespace tutti::base
