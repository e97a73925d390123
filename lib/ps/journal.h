#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/fd.h"
#include "net/bytes.h"

namespace tutti::ps {

/// A file to which records are appended; each carries a hash of itself and of its number. Marks
/// between them say how far it has been on the disk.
class Journal {
 public:
  /// At random, so that what a disk still has of another file is not taken for a part of this one.
  using Id = std::array<std::byte, 16>;

  /// Makes the file, in place of one that is there; `job`: what is written is of that. Throws
  /// `internal` when the system refuses.
  Journal(std::string path, std::uint64_t job);

  /// What the system has refused once is not written again: nobody knows what the disk has of it.
  /// From then on `write` and `sync` throw `internal`; the file has what was whole before.
  bool has_failed() const { return has_failed_; }
  /// Kept in memory until `write`.
  void append(net::ConstBytes head, net::ConstBytes body);
  bool has_unwritten() const { return !unwritten_.empty(); }
  /// Gives all records to the system: they survive this process.
  void write();
  /// The same, and they survive the machine, too. Blocks.
  void sync();
  /// Of the file.
  std::uint64_t bytes() const { return bytes_; }

  /// Whether something stands behind the records that none is. Then the machine went down before
  /// that had reached the disk, or the process while it wrote.
  enum class End : std::uint8_t { whole, torn };
  /// Calls `take` with every whole record, up to the first that is not as it was written. Throws
  /// `invalid_argument` where a mark says that this one was on the disk, and for a file that is no
  /// journal of this job.
  static End read(const std::string& path, std::uint64_t job,
                  const std::function<void(net::ConstBytes)>& take);

 private:
  [[noreturn]] void fail();

  const std::string path_;
  base::Fd file_;
  Id id_{};
  net::Bytes unwritten_;
  std::uint64_t records_ = 0;
  std::uint64_t bytes_ = 0;
  bool has_failed_ = false;
};

}  // namespace tutti::ps
