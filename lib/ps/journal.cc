#include "ps/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium/crypto_generichash.h>
#include <sodium/randombytes.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/failure.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/regular_file.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

constexpr std::string_view magic = "tutti, journal 2\n";
constexpr std::size_t hash_bytes = 16;
constexpr std::size_t head_bytes = 4 + hash_bytes;
/// Stands in place of a length. What follows is the journal's id and how many records are on the
/// disk.
constexpr std::uint32_t synced_mark = 0xffffffff;
using Hash = std::array<std::byte, hash_bytes>;
using Id = Journal::Id;
constexpr std::size_t mark_bytes = head_bytes + std::tuple_size_v<Id> + 8;

/// Of the record with this number in this journal. So none can be left out, or stand elsewhere.
Hash hash_of(const Id& id, std::uint64_t number, std::uint32_t length, net::ConstBytes head,
             net::ConstBytes body) {
  std::array<std::byte, 12> place{};
  net::store_u64(place.data(), number);
  net::store_u32(place.data() + 8, length);
  crypto_generichash_state state;
  crypto_generichash_init(&state, net::as_unsigned(id.data()), id.size(), hash_bytes);
  for (const net::ConstBytes part : {net::ConstBytes(place), head, body}) {
    crypto_generichash_update(&state, net::as_unsigned(part.data()), part.size());
  }
  Hash hash{};
  crypto_generichash_final(&state, net::as_unsigned(hash.data()), hash.size());
  return hash;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", base::printable(path), why));
}

bool is_mark_of(const Id& id, net::ConstBytes mark) {
  const Hash hash = hash_of(id, net::load_u64(mark.last(8).data()), synced_mark, {}, {});
  return net::load_u32(mark.data()) == synced_mark &&
         std::ranges::equal(hash, mark.subspan(4, hash_bytes));
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
  off_t offset() const { return ::lseek(file_.get(), 0, SEEK_CUR); }
  void seek(off_t to) { ::lseek(file_.get(), to, SEEK_SET); }
  std::size_t left() {
    const off_t here = offset();
    const off_t end = ::lseek(file_.get(), 0, SEEK_END);
    seek(here);
    return static_cast<std::size_t>(std::max<off_t>(end - here, 0));
  }

 private:
  const std::string& path_;
  base::Fd file_;
};

/// Finds out whether the next is a record, a mark, or neither.
class Reader {
 public:
  Reader(Source& source, const Id& id) : source_(source), id_(id) {}

  enum class Next : std::uint8_t { record, mark, neither };
  Next read(std::uint64_t number) {
    std::array<std::byte, head_bytes> head{};
    if (!source_.read(head)) return Next::neither;
    const std::uint32_t length = net::load_u32(head.data());
    if (length == synced_mark) return is_mark(head) ? Next::mark : Next::neither;
    if (length > source_.left()) return Next::neither;
    record.resize(length);
    if (!source_.read(record)) return Next::neither;
    const Hash hash = hash_of(id_, number, length, {}, record);
    return std::ranges::equal(hash, std::span(head).subspan(4)) ? Next::record : Next::neither;
  }
  /// Whether any mark from there on says that this record was on the disk.
  bool was_synced(std::uint64_t number, off_t from) {
    source_.seek(from);
    net::Bytes rest(source_.left());
    source_.read(rest);
    for (auto at = rest.begin();; ++at) {
      at = std::search(at, rest.end(), id_.begin(), id_.end());
      if (at == rest.end()) return false;
      const auto before = static_cast<std::size_t>(at - rest.begin());
      if (before < head_bytes || rest.size() < before - head_bytes + mark_bytes) continue;
      const net::ConstBytes mark = net::ConstBytes(rest).subspan(before - head_bytes, mark_bytes);
      if (is_whole(mark) && net::load_u64(mark.last(8).data()) > number) return true;
    }
  }

  net::Bytes record;

 private:
  bool is_mark(std::span<const std::byte> head) {
    std::array<std::byte, mark_bytes> mark{};
    std::ranges::copy(head, mark.begin());
    return source_.read(std::span(mark).subspan(head_bytes)) && is_whole(mark);
  }
  bool is_whole(net::ConstBytes mark) const {
    return is_mark_of(id_, mark) && std::ranges::equal(id_, mark.subspan(head_bytes, id_.size()));
  }

  Source& source_;
  const Id id_;
};

/// Whether the mark behind the beginning is whole, but of another id. Of a journal with a changed
/// id no record could be told from one that never reached the disk.
bool is_followed_by_another(const Id& id, Source& source) {
  const off_t here = source.offset();
  std::array<std::byte, mark_bytes> mark{};
  Id other{};
  const bool is_there = source.read(mark);
  source.seek(here);
  std::ranges::copy(std::span(mark).subspan(head_bytes, other.size()), other.begin());
  return is_there && other != id && is_mark_of(other, mark);
}

}  // namespace

Journal::Journal(std::string path, std::uint64_t job) : path_(std::move(path)) {
  base::RegularFile made = base::open_regular(path_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (!made.file) {
    throw Error(ErrorCode::internal,
                fmt::format("cannot write {}: {}", base::printable(path_), made.failure));
  }
  file_ = std::move(made.file);
  ::randombytes_buf(id_.data(), id_.size());
  net::append(unwritten_, net::as_bytes(magic));
  net::append(unwritten_, id_);
  net::append_u64(unwritten_, job);
  sync();
}

/// Behind a part of a record, none that follows could be read.
void Journal::fail() {
  const Error failure = base::system_failure(fmt::format("write {}", base::printable(path_)));
  has_failed_ = true;
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) {
    base::log().error("the end of {} is no whole record", base::printable(path_));
  }
  throw failure;
}

void Journal::append(net::ConstBytes head, net::ConstBytes body) {
  const auto length = static_cast<std::uint32_t>(head.size() + body.size());
  net::append_u32(unwritten_, length);
  net::append(unwritten_, hash_of(id_, records_++, length, head, body));
  net::append(unwritten_, head);
  net::append(unwritten_, body);
}

void Journal::write() {
  if (has_failed_) {
    throw Error(ErrorCode::internal,
                fmt::format("cannot write {}: it has failed before", base::printable(path_)));
  }
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
  write();
  if (::fdatasync(file_.get()) != 0) fail();
  net::append_u32(unwritten_, synced_mark);
  net::append(unwritten_, hash_of(id_, records_, synced_mark, {}, {}));
  net::append(unwritten_, id_);
  net::append_u64(unwritten_, records_);
  write();
}

Journal::End Journal::read(const std::string& path, std::uint64_t job,
                           const std::function<void(net::ConstBytes)>& take) {
  Source source(path);
  std::array<std::byte, magic.size()> start{};
  Id id{};
  if (!source.read(start)) return End::torn;
  if (net::as_text(start) != magic) refuse(path, "not a journal that tutti wrote");
  std::array<std::byte, 8> owner{};
  if (!source.read(id) || !source.read(owner)) return End::torn;
  if (net::load_u64(owner.data()) != job) {
    refuse(path, "it is of another job than the checkpoint before it");
  }
  if (is_followed_by_another(id, source)) {
    refuse(path, "damaged: its beginning is not as tutti wrote it");
  }
  Reader reader(source, id);
  std::uint64_t number = 0;
  while (source.left() > 0) {
    const off_t here = source.offset();
    const Reader::Next next = reader.read(number);
    if (next == Reader::Next::neither && !reader.was_synced(number, here)) return End::torn;
    if (next == Reader::Next::neither) {
      refuse(path, fmt::format("damaged: record {} is not as tutti wrote it", number + 1));
    }
    if (next == Reader::Next::mark) continue;
    take(reader.record);
    ++number;
  }
  return End::whole;
}

}  // namespace tutti::ps
