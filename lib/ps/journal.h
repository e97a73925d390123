#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "base/fd.h"
#include "net/bytes.h"

namespace tutti::ps {

/// A file to which records are appended; each carries a hash of itself and of its number.
class Journal {
 public:
  /// Makes the file, in place of one that is there. Throws `internal` when the system refuses.
  explicit Journal(std::string path);

  /// Kept in memory until `write`.
  void append(net::ConstBytes head, net::ConstBytes body);
  bool has_unwritten() const { return !unwritten_.empty(); }
  /// Gives all records to the system: they survive this process.
  void write();
  /// They survive the machine, too. Blocks.
  void sync();
  /// Of the file.
  std::uint64_t bytes() const { return bytes_; }

  /// Whether the file ends with a record that was not written to its end.
  enum class End : std::uint8_t { whole, torn };
  /// Calls `take` with every whole record. Throws `invalid_argument` for a file that is no journal
  /// and for a record that is not as it was written.
  static End read(const std::string& path, const std::function<void(net::ConstBytes)>& take);

 private:
  [[noreturn]] void fail() const;

  const std::string path_;
  base::Fd file_;
  net::Bytes unwritten_;
  std::uint64_t records_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace tutti::ps
