#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/disk.h"
#include "net/bytes.h"
#include "ps/durable/journal_format.h"

namespace tutti::ps {

/// Reads the part of a journal that has reached the disk.
class JournalReader {
 public:
  /// Throws `invalid_argument` if the file is no journal of this job.
  JournalReader(const base::Disk& disk, const std::string& name, std::uint64_t job);

  /// The place where the journal before this one ended.
  const JournalPlace& follows() const { return beginning_.follows; }
  /// Calls `take` with every whole record, up to the first that is not as it was written. Throws
  /// `invalid_argument` if a mark says that this record was on the disk.
  void replay(const std::function<void(net::ConstBytes)>& take);
  /// The place behind the records that were read.
  JournalPlace end() const { return {beginning_.id, records_}; }
  /// Whether bytes that are no record follow these records. Then the machine went down before the
  /// next record had reached the disk, or the process ended while it wrote the record.
  bool is_torn() const { return at_ < file_->size(); }

 private:
  enum class Next : std::uint8_t { record, mark, neither };
  Next read_next();
  bool is_mark_next() const;
  bool was_synced() const;

  const std::string path_;
  const std::unique_ptr<base::ReadableFile> file_;
  JournalBeginning beginning_;
  std::uint64_t at_ = JournalBeginning::bytes;  ///< the place behind the last record that was read
  std::uint64_t records_ = 0;
  net::Bytes record_;
};

}  // namespace tutti::ps
