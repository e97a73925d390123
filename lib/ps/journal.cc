#include "ps/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium/crypto_generichash.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/failure.h"
#include "base/printable.h"
#include "base/regular_file.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

constexpr std::string_view magic = "tutti, journal 1\n";
constexpr std::size_t hash_bytes = 16;
constexpr std::size_t head_bytes = 4 + hash_bytes;
using Hash = std::array<std::byte, hash_bytes>;

/// Of the record with this number. So none can be left out, or stand elsewhere.
Hash hash_of(std::uint64_t number, net::ConstBytes head, net::ConstBytes body) {
  std::array<std::byte, 8> raw{};
  net::store_u32(raw.data(), static_cast<std::uint32_t>(number));
  net::store_u32(raw.data() + 4, static_cast<std::uint32_t>(number >> 32));
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, hash_bytes);
  for (const net::ConstBytes part : {net::ConstBytes(raw), head, body}) {
    crypto_generichash_update(&state, net::as_unsigned(part.data()), part.size());
  }
  Hash hash{};
  crypto_generichash_final(&state, net::as_unsigned(hash.data()), hash.size());
  return hash;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", base::printable(path), why));
}

/// A file read from its beginning.
class Source {
 public:
  explicit Source(const std::string& path) : path_(path) {
    base::RegularFile opened = base::open_regular(path, O_RDONLY);
    if (!opened.file) refuse(path, opened.failure);
    file_ = std::move(opened.file);
  }
  /// False: the file ends before.
  bool read(std::span<std::byte> into) {
    while (!into.empty()) {
      const ssize_t got = ::read(file_.get(), into.data(), into.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw base::system_failure(fmt::format("read {}", base::printable(path_)));
      if (got == 0) return false;
      into = into.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }
  std::size_t left() const {
    const off_t here = ::lseek(file_.get(), 0, SEEK_CUR);
    const off_t end = ::lseek(file_.get(), 0, SEEK_END);
    ::lseek(file_.get(), here, SEEK_SET);
    return static_cast<std::size_t>(std::max<off_t>(end - here, 0));
  }

 private:
  const std::string& path_;
  base::Fd file_;
};

}  // namespace

Journal::Journal(std::string path) : path_(std::move(path)) {
  base::RegularFile made = base::open_regular(path_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (!made.file) {
    throw Error(ErrorCode::internal,
                fmt::format("cannot write {}: {}", base::printable(path_), made.failure));
  }
  file_ = std::move(made.file);
  net::append(unwritten_, net::as_bytes(magic));
  write();
}

void Journal::fail() const {
  throw base::system_failure(fmt::format("write {}", base::printable(path_)));
}

void Journal::append(net::ConstBytes head, net::ConstBytes body) {
  net::append_u32(unwritten_, static_cast<std::uint32_t>(head.size() + body.size()));
  net::append(unwritten_, hash_of(records_++, head, body));
  net::append(unwritten_, head);
  net::append(unwritten_, body);
}

void Journal::write() {
  net::ConstBytes rest = unwritten_;
  while (!rest.empty()) {
    const ssize_t count = ::write(file_.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    rest = rest.subspan(static_cast<std::size_t>(count));
  }
  bytes_ += unwritten_.size();
  unwritten_.clear();
}

void Journal::sync() {
  if (::fdatasync(file_.get()) != 0) fail();
}

Journal::End Journal::read(const std::string& path,
                           const std::function<void(net::ConstBytes)>& take) {
  Source source(path);
  std::array<std::byte, magic.size()> start{};
  if (!source.read(start)) return End::torn;
  if (net::as_text(start) != magic) refuse(path, "not a journal that tutti wrote");
  net::Bytes record;
  for (std::uint64_t number = 0; source.left() > 0; ++number) {
    std::array<std::byte, head_bytes> head{};
    if (!source.read(head)) return End::torn;
    const std::size_t length = net::load_u32(head.data());
    if (length > source.left()) return End::torn;
    record.resize(length);
    if (!source.read(record)) return End::torn;
    const Hash hash = hash_of(number, {}, record);
    if (!std::ranges::equal(hash, std::span(head).subspan(4))) {
      refuse(path, fmt::format("damaged: record {} is not as tutti wrote it", number + 1));
    }
    take(record);
  }
  return End::whole;
}

}  // namespace tutti::ps
