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

/// A file that is written at its end. Functions return false if the system refuses, and errno says
/// why. They block.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// If the system refuses, a part may still have been appended.
  virtual bool append(std::span<const std::byte> bytes) = 0;
  virtual bool truncate(std::uint64_t size) = 0;
  /// The bytes of the file and its size survive a failure of the machine from now on. Its name need
  /// not: see `Disk::sync`.
  virtual bool sync() = 0;
};

/// A file that is read at any place.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::uint64_t size() const = 0;
  /// Returns how many bytes there were. If there were fewer than asked for, the file ends there.
  /// Throws `internal`.
  virtual std::size_t read(std::uint64_t offset, std::span<std::byte> into) const = 0;
};

/// The files of one folder. When the machine goes down, each change that was not synced may be on
/// the disk or not, in part or in another order. Functions return false or null if the system
/// refuses, and errno says why. They block.
class Disk {
 public:
  explicit Disk(std::string folder) : folder_(std::move(folder)) {}
  virtual ~Disk() = default;
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// The paths of the folder and of the file with this name, for messages.
  const std::string& path() const { return folder_; }
  std::string path(const std::string& name) const;

  /// Throws `invalid_argument` if the folder cannot be read.
  virtual std::vector<std::string> names() const = 0;
  /// Throws `invalid_argument` if the file does not exist or may not be read.
  virtual std::unique_ptr<ReadableFile> open(const std::string& name) const = 0;
  /// Makes an empty file, in place of an existing one.
  virtual std::unique_ptr<WritableFile> create(const std::string& name) = 0;
  /// Renames a file in one step, in place of an existing one.
  virtual bool rename(const std::string& from, const std::string& to) = 0;
  virtual bool remove(const std::string& name) = 0;
  /// All names survive a failure of the machine from now on, and removed files stay removed.
  virtual bool sync() = 0;

 private:
  const std::string folder_;
};

/// Makes a file that gets its name when these bytes are on disk. Until then the name belongs to the
/// former file. Returns when the name is on disk, too. If the system refuses, removes the
/// unfinished file and throws `internal`.
std::unique_ptr<WritableFile> create_whole(Disk& disk, const std::string& name,
                                           std::initializer_list<std::span<const std::byte>> parts);

/// The name of such a file before it is complete. It keeps this name if its writer is killed.
std::string unfinished_file(const std::string& name, pid_t process);
/// Whether the name is one of an unfinished file.
bool is_unfinished(const std::string& name);

}  // namespace tutti::base
