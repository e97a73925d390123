#include "ps/link/job_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium/randombytes.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/printable.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

constexpr std::size_t digits = 2 * net::secret_bytes;

[[noreturn]] void refuse_key(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why);
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// `where` names the key's origin in an error.
net::Secret parsed(std::string_view hex, const std::string& where) {
  std::string bytes;
  bool usable = hex.size() == digits;
  for (std::size_t i = 0; usable && i < hex.size(); i += 2) {
    const int high = digit(hex[i]);
    const int low = digit(hex[i + 1]);
    usable = high >= 0 && low >= 0;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  if (!usable) {
    refuse_key(
        fmt::format("{} is not usable; it takes {} digits 0-9a-f, the same for all processes of "
                    "the job",
                    where, digits));
  }
  if (std::ranges::count(bytes, bytes.front()) == std::ssize(bytes)) {
    refuse_key(
        fmt::format("{} is not usable: it repeats one byte, so anybody can guess it; make a "
                    "random key, as `openssl rand -hex 32` does",
                    where));
  }
  return net::make_secret(bytes);
}

/// A file that holds a key, and the words that name it in an error.
struct KeyFile {
  base::Fd file;
  std::string where;
};

std::string read_key(const KeyFile& key) {
  struct stat status {};
  if (::fstat(key.file.get(), &status) != 0) {
    refuse_key(fmt::format("{} is not usable: it cannot be examined", key.where));
  }
  if (!S_ISREG(status.st_mode)) {
    refuse_key(fmt::format("{} is not usable: it is no regular file", key.where));
  }
  if (status.st_uid != ::geteuid()) {
    refuse_key(fmt::format("{} is not usable: it belongs to another user", key.where));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refuse_key(
        fmt::format("{} is not usable: its mode is {:04o}, so other users than its owner may "
                    "read or write it; chmod 600 it, and make a new key, because they may have "
                    "read this one",
                    key.where, status.st_mode & 07777U));
  }
  // Room for the end of a line, and for one character more, which shows that the file is too long.
  char raw[digits + 2];
  const ssize_t count = ::read(key.file.get(), raw, sizeof raw);
  if (count < 0) refuse_key(fmt::format("{} is not usable: it cannot be read", key.where));
  std::string text(raw, static_cast<std::size_t>(count));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

net::Secret secret_in(const KeyFile& key) {
  return parsed(read_key(key), key.where);
}

/// The place of the user's own key. If a folder or a file is a link, or belongs to another user, it
/// is not used, because somebody else may have put it there.
class UsersKey {
 public:
  explicit UsersKey(const std::string& home)
      : path_((home.empty() ? "~" : home) + "/.cache/tutti/job-key") {
    if (home.empty()) give_up("HOME is not set");
    const base::Fd at_home(::open(home.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!at_home) give_up_by_errno(home);
    // This folder may be a link: some users keep their caches on another disk.
    const base::Fd caches = folder(at_home, ".cache", 0);
    folder_ = folder(caches, "tutti", O_NOFOLLOW);
    check_owner();
  }

  net::Secret secret() const {
    KeyFile key = open();
    if (!key.file && errno == ENOENT) {
      make();
      key = open();
    }
    if (!key.file && errno == ELOOP) give_up("it is a link");
    if (!key.file) give_up_by_errno(path_);
    return secret_in(key);
  }

 private:
  base::Fd folder(const base::Fd& above, const char* name, int flags) const {
    if (::mkdirat(above.get(), name, S_IRWXU) != 0 && errno != EEXIST) give_up_by_errno(path_);
    base::Fd made(::openat(above.get(), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
    if (!made) give_up_by_errno(path_);
    return made;
  }

  void check_owner() const {
    struct stat status {};
    if (::fstat(folder_.get(), &status) != 0) give_up_by_errno(path_);
    if (status.st_uid != ::geteuid()) give_up("its folder belongs to another user");
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
      give_up("other users may write to its folder; chmod 700 it");
    }
  }

  KeyFile open() const {
    constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    return {base::Fd(::openat(folder_.get(), file, flags)),
            fmt::format("the key file {} (of this user's jobs without TUTTI_JOB_KEY; if it is "
                        "removed, the next job makes another one)",
                        base::quoted(path_))};
  }

  /// The complete file gets its name in one step, and only if no file has the name. So if several
  /// processes begin at the same time, one of them makes the key of all.
  void make() const {
    const std::string unfinished = fmt::format("{}.{:016x}", file, random_number());
    if (!write(unfinished)) give_up_by_errno(path_);
    const bool is_there =
        ::linkat(folder_.get(), unfinished.c_str(), folder_.get(), file, 0) == 0 || errno == EEXIST;
    const int failure = errno;
    ::unlinkat(folder_.get(), unfinished.c_str(), 0);
    errno = failure;
    if (!is_there) give_up_by_errno(path_);
  }

  bool write(const std::string& name) const {
    constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const base::Fd made(::openat(folder_.get(), name.c_str(), flags, S_IRUSR | S_IWUSR));
    if (!made) return false;
    std::string text;
    for (std::size_t i = 0; i < net::secret_bytes; ++i) {
      text += fmt::format("{:02x}", ::randombytes_uniform(256));
    }
    text += '\n';
    return ::write(made.get(), text.data(), text.size()) == std::ssize(text) &&
           ::fsync(made.get()) == 0;
  }

  static std::uint64_t random_number() {
    return std::uint64_t{::randombytes_random()} << 32 | ::randombytes_random();
  }

  [[noreturn]] void give_up(const std::string& why) const {
    refuse_key(
        fmt::format("there is no TUTTI_JOB_KEY, and this user's own key {} cannot be used: {}. "
                    "Set TUTTI_JOB_KEY for all processes of the job, to the same {} digits "
                    "0-9a-f, such as `openssl rand -hex 32` prints, or let scripts/launch.py "
                    "start them",
                    base::quoted(path_), why, digits));
  }
  [[noreturn]] void give_up_by_errno(const std::string& what) const {
    const char* const why = std::strerror(errno);
    give_up(what == path_ ? why : fmt::format("{}: {}", base::printable(what), why));
  }

  static constexpr const char* file = "job-key";
  const std::string path_;
  base::Fd folder_;
};

}  // namespace

std::optional<net::Secret> secret_of(const std::optional<std::string>& key,
                                     const std::optional<std::string>& file) {
  std::optional<net::Secret> secret;
  if (key) secret = parsed(*key, "environment variable TUTTI_JOB_KEY");
  if (!file) return secret;
  const KeyFile opened{
      base::Fd(::open(file->c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)),
      fmt::format("the key file {} (TUTTI_JOB_KEY_FILE)", base::quoted(*file))};
  if (!opened.file) {
    refuse_key(fmt::format("{} is not usable: {}", opened.where, std::strerror(errno)));
  }
  const net::Secret in_file = secret_in(opened);
  if (secret && *secret != in_file) {
    refuse_key(
        "TUTTI_JOB_KEY and TUTTI_JOB_KEY_FILE are both set, and name different keys; set only "
        "one of them");
  }
  return in_file;
}

net::Secret secret_of_user(const std::string& home) {
  return UsersKey(home).secret();
}

}  // namespace tutti::ps
