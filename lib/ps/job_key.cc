#include "ps/job_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/regular_file.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

constexpr std::size_t digits = 2 * net::secret_bytes;

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

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
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is not usable; it takes {} digits 0-9a-f, the same for all "
                            "processes of the job",
                            where, digits));
  }
  return net::make_secret(bytes);
}

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the key file {} (TUTTI_JOB_KEY_FILE) is not usable: {}",
                          base::quoted(file), why));
}

std::string read_key(const std::string& path) {
  const base::RegularFile opened = base::open_regular(path, O_RDONLY);
  if (!opened.file) refuse(path, opened.failure);
  struct stat status {};
  if (::fstat(opened.file.get(), &status) != 0) refuse(path, "it cannot be examined");
  if (status.st_uid != ::geteuid()) refuse(path, "it belongs to another user");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refuse(path, fmt::format("its mode is {:04o}, and others than its owner may use it; chmod 600 "
                             "it, and make a new key, which they cannot have read",
                             status.st_mode & 07777U));
  }
  char raw[digits + 2];  // and a line's end, and one to see that there is more
  const ssize_t count = ::read(opened.file.get(), raw, sizeof raw);
  if (count < 0) refuse(path, "it cannot be read");
  std::string text(raw, static_cast<std::size_t>(count));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

std::optional<net::Secret> secret_of(const std::string& key, const std::string& file) {
  std::optional<net::Secret> secret;
  if (!key.empty()) secret = parsed(key, "environment variable TUTTI_JOB_KEY");
  if (file.empty()) return secret;
  const net::Secret in_file = parsed(
      read_key(file), fmt::format("the key file {} (TUTTI_JOB_KEY_FILE)", base::quoted(file)));
  if (secret && *secret != in_file) {
    throw Error(ErrorCode::invalid_argument,
                "TUTTI_JOB_KEY and TUTTI_JOB_KEY_FILE are both set, and give different keys; set "
                "one of them");
  }
  return in_file;
}

}  // namespace tutti::ps
