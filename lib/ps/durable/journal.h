#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/disk.h"
#include "net/bytes.h"
#include "ps/durable/journal_format.h"

namespace tutti::ps {

/// A file to which records are appended. Each record carries a hash of itself and of its number.
/// Marks between the records say which of them have reached the disk. The beginning says where the
/// journal before this one ended. That journal must be on the disk by then.
class Journal {
 public:
  /// Creates the file, in place of an existing one. The file and its name are then on disk. `job`
  /// is the job to which the records belong. Throws `internal` if the system refuses.
  Journal(base::Disk& disk, const std::string& name, std::uint64_t job, JournalPlace follows = {});

  /// Whether the system has refused a write. The journal does not write the same bytes again,
  /// because nobody knows how much of them the disk has. From then on `write` and `sync` throw
  /// `internal`, and the file has the records that were complete before.
  bool has_failed() const { return has_failed_; }
  /// Adds a record, which stays in memory until `write`.
  void append(net::ConstBytes head, net::ConstBytes body);
  bool has_unwritten() const { return !unwritten_.empty(); }
  /// Passes all records to the system. They survive the end of this process.
  void write();
  /// Writes all records to the disk. They survive a failure of the machine, too. Blocks.
  void sync();
  /// The size of the file.
  std::uint64_t bytes() const { return bytes_; }
  /// The place behind all records that were appended.
  const JournalPlace& end() const { return end_; }

 private:
  [[noreturn]] void fail();

  const std::string path_;
  JournalPlace end_;
  std::unique_ptr<base::WritableFile> file_;
  net::Bytes unwritten_;
  std::uint64_t bytes_ = JournalBeginning::bytes;
  bool has_failed_ = false;
};

}  // namespace tutti::ps
