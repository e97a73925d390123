#include "ps/durable/journal_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/printable.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

[[noreturn]] void refuse_journal(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", base::printable(path), why));
}

}  // namespace

JournalReader::JournalReader(const base::Disk& disk, const std::string& name, std::uint64_t job)
    : path_(disk.path(name)), file_(disk.open(name)) {
  std::array<std::byte, JournalBeginning::bytes> start{};
  const std::size_t got = file_->read(0, start);
  const char* const problem = decode(net::ConstBytes(start).first(got), beginning_);
  if (problem != nullptr) refuse_journal(path_, problem);
  if (beginning_.job != job)
    refuse_journal(path_, "it is of another job than the checkpoint before it");
}

void JournalReader::replay(const std::function<void(net::ConstBytes)>& take) {
  while (is_torn()) {
    const Next next = read_next();
    if (next == Next::neither && !was_synced()) return;
    if (next == Next::neither) {
      refuse_journal(path_,
                     fmt::format("damaged: record {} is not as tutti wrote it", records_ + 1));
    }
    if (next == Next::mark) continue;
    take(record_);
    ++records_;
  }
}

/// Reads a record or a mark, and goes on behind it. If there is neither, stays where it is.
JournalReader::Next JournalReader::read_next() {
  std::array<std::byte, record_head_bytes> head{};
  if (file_->read(at_, head) < head.size()) return Next::neither;
  const std::uint32_t length = net::load_u32(head.data());
  if (length == synced_mark) {
    if (!is_mark_next()) return Next::neither;
    at_ += mark_bytes;
    return Next::mark;
  }
  const std::uint64_t body = at_ + head.size();
  if (length > file_->size() - body) return Next::neither;
  record_.resize(length);
  if (file_->read(body, record_) < length) return Next::neither;
  const JournalHash hash = hash_of_record(beginning_.id, records_, length, {}, record_);
  if (!std::ranges::equal(hash, std::span(head).subspan(4))) return Next::neither;
  at_ = body + length;
  return Next::record;
}

bool JournalReader::is_mark_next() const {
  std::array<std::byte, mark_bytes> mark{};
  return file_->read(at_, mark) == mark.size() &&
         std::ranges::equal(mark, mark_of({beginning_.id, net::load_u64(&mark[mark_bytes - 8])}));
}

/// Whether any mark from here on says that the next record was on the disk.
bool JournalReader::was_synced() const {
  net::Bytes rest(file_->size() - at_);
  rest.resize(file_->read(at_, rest));
  const JournalId& id = beginning_.id;
  for (auto found = rest.begin();; ++found) {
    found = std::search(found, rest.end(), id.begin(), id.end());
    if (found == rest.end()) return false;
    const auto before = static_cast<std::size_t>(found - rest.begin());
    if (before < record_head_bytes || rest.size() < before - record_head_bytes + mark_bytes) {
      continue;
    }
    const net::ConstBytes mark =
        net::ConstBytes(rest).subspan(before - record_head_bytes, mark_bytes);
    const std::uint64_t records = net::load_u64(mark.last(8).data());
    if (std::ranges::equal(mark, mark_of({id, records})) && records > records_) return true;
  }
}

}  // namespace tutti::ps
