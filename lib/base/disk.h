#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti::base {

/// A file that is written at its end. False: the system refuses, and errno says why. Calls block.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// A call that is refused may have appended a part.
  virtual bool append(std::span<const std::byte> bytes) = 0;
  virtual bool truncate(std::uint64_t size) = 0;
  /// Its bytes and its size survive the machine from now on. Its name need not: see `Disk::sync`.
  virtual bool sync() = 0;
};

/// A file that is read anywhere.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::uint64_t size() const = 0;
  /// How many bytes there were; fewer than asked for: the file ends there. Throws `internal`.
  virtual std::size_t read(std::uint64_t offset, std::span<std::byte> into) const = 0;
};

/// The files of one folder. When the machine goes down, each change that was not synced may be on
/// the disk or not, in part or in another order. False or null: the system refuses, and errno says
/// why. Calls block.
class Disk {
 public:
  explicit Disk(std::string folder) : folder_(std::move(folder)) {}
  virtual ~Disk() = default;
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// The paths of the folder and of the file with this name, for messages.
  const std::string& path() const { return folder_; }
  std::string path(const std::string& name) const;

  /// Throws `invalid_argument` when the folder cannot be read.
  virtual std::vector<std::string> names() const = 0;
  /// Throws `invalid_argument` for a file that is not there, or is none that may be read.
  virtual std::unique_ptr<ReadableFile> open(const std::string& name) const = 0;
  /// An empty file, in place of one that is there.
  virtual std::unique_ptr<WritableFile> create(const std::string& name) = 0;
  /// Renames a file in one step, in place of an existing one.
  virtual bool rename(const std::string& from, const std::string& to) = 0;
  virtual bool remove(const std::string& name) = 0;
  /// All names survive the machine from now on, and those that were removed stay away.
  virtual bool sync() = 0;

 private:
  const std::string folder_;
};

/// Makes a file that gets its name when these bytes are on disk. Until then the name belongs to the
/// file that had it before. Returns when the name is on disk, too. Throws `internal` if the system
/// refuses; the unfinished file is then removed.
std::unique_ptr<WritableFile> create_whole(Disk& disk, const std::string& name,
                                           std::initializer_list<std::span<const std::byte>> parts);

/// The name of such a file before it is whole, and after its writer was killed.
std::string unfinished_file(const std::string& name, pid_t process);
/// Whether a name is one of those.
bool is_unfinished(const std::string& name);

}  // namespace tutti::base
