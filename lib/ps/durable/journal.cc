#include "ps/durable/journal.h"

#include <fmt/format.h>
#include <sodium/randombytes.h>

#include "base/failure.h"
#include "base/log.h"
#include "base/printable.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

JournalId random_id() {
  JournalId id{};
  ::randombytes_buf(id.data(), id.size());
  return id;
}

}  // namespace

Journal::Journal(base::Disk& disk, const std::string& name, std::uint64_t job, JournalPlace follows)
    : path_(disk.path(name)), end_{random_id()} {
  const JournalBeginning beginning{.id = end_.id, .job = job, .follows = follows};
  file_ = base::create_whole(disk, name, {beginning.encoded()});
}

/// If a part of a record is written, no record after it can be read.
void Journal::fail() {
  const Error failure = base::system_failure(fmt::format("write {}", base::printable(path_)));
  has_failed_ = true;
  if (!file_->truncate(bytes_)) {
    base::log().error("the end of {} is no whole record", base::printable(path_));
  }
  throw failure;
}

void Journal::append(net::ConstBytes head, net::ConstBytes body) {
  const auto length = static_cast<std::uint32_t>(head.size() + body.size());
  net::append_u32(unwritten_, length);
  net::append(unwritten_, hash_of_record(end_.id, end_.records++, length, head, body));
  net::append(unwritten_, head);
  net::append(unwritten_, body);
}

void Journal::write() {
  if (has_failed_) {
    throw Error(ErrorCode::internal, fmt::format("cannot write {}, because an earlier write failed",
                                                 base::printable(path_)));
  }
  if (!file_->append(unwritten_)) fail();
  bytes_ += unwritten_.size();
  unwritten_.clear();
}

void Journal::sync() {
  write();
  if (!file_->sync()) fail();
  net::append(unwritten_, mark_of(end_));
  write();
}

}  // namespace tutti::ps
