#include "base/sealed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium/crypto_generichash.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <tuple>

#include "base/failure.h"
#include "base/printable.h"
#include "base/regular_file.h"
#include "tutti/error.h"

namespace tutti::base {
namespace {

constexpr std::string_view magic = "tutti, sealed 1\n";
using Hash = std::array<std::uint8_t, crypto_generichash_BYTES>;
constexpr std::size_t header_bytes = magic.size() + std::tuple_size_v<Hash>;

Hash hash_of(std::span<const std::uint8_t> bytes) {
  Hash hash{};
  crypto_generichash(hash.data(), hash.size(), bytes.data(), bytes.size(), nullptr, 0);
  return hash;
}

Fd folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  Fd folder(::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) throw system_failure(fmt::format("write {}", printable(path)));
  return folder;
}

/// A file that is removed again unless it gets its final name.
class Unfinished {
 public:
  /// Opens the folder first: without it nothing is begun.
  explicit Unfinished(const std::string& path)
      : final_(path), path_(unfinished_file(path, ::getpid())), folder_(folder_of(path)) {
    constexpr mode_t for_all = 0666;
    file_ =
        Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, for_all));
    if (!file_) fail();
  }
  ~Unfinished() {
    if (file_) ::unlink(path_.c_str());
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  void append(std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail();
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }
  /// On the disk, then under its name, which must survive a crash, too.
  void finish() {
    if (::fsync(file_.get()) != 0 || std::rename(path_.c_str(), final_.c_str()) != 0) fail();
    file_.reset();
    if (sync_names(folder_)) return;
    throw system_failure(fmt::format("write the folder of {}", printable(final_)));
  }

 private:
  [[noreturn]] void fail() const {
    throw system_failure(fmt::format("write {}", printable(final_)));
  }

  const std::string final_;
  const std::string path_;
  const Fd folder_;
  Fd file_;
};

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", printable(path), why));
}

std::vector<std::uint8_t> read_all(const std::string& path) {
  const RegularFile opened = open_regular(path, O_RDONLY);
  if (!opened.file) refuse(path, opened.failure);
  std::vector<std::uint8_t> all(std::filesystem::file_size(path));
  std::size_t size = 0;
  while (size < all.size()) {
    const ssize_t got = ::read(opened.file.get(), all.data() + size, all.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_failure(fmt::format("read {}", printable(path)));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  all.resize(size);
  return all;
}

}  // namespace

bool sync_names(const Fd& folder) {
  return ::fsync(folder.get()) == 0 || errno == EINVAL;
}

std::string unfinished_file(const std::string& path, pid_t process) {
  return fmt::format("{}.{}.unfinished", path, process);
}

void write_sealed(const std::string& path, std::span<const std::uint8_t> bytes) {
  Unfinished file(path);
  file.append({reinterpret_cast<const std::uint8_t*>(magic.data()), magic.size()});
  file.append(hash_of(bytes));
  file.append(bytes);
  file.finish();
}

std::vector<std::uint8_t> read_sealed(const std::string& path) {
  std::vector<std::uint8_t> all = read_all(path);
  if (all.size() < header_bytes || std::memcmp(all.data(), magic.data(), magic.size()) != 0) {
    refuse(path, "not a file that tutti wrote, or cut short");
  }
  const auto bytes = all.begin() + header_bytes;
  const Hash hash = hash_of({bytes, all.end()});
  if (!std::equal(hash.begin(), hash.end(), all.begin() + magic.size())) {
    refuse(path, "damaged: its bytes are not those that tutti wrote");
  }
  all.erase(all.begin(), bytes);
  return all;
}

}  // namespace tutti::base
