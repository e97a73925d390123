// A disk in memory, and all that it may have when the machine goes down.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/disk.h"
#include "net/bytes.h"

namespace tutti::ps {

/// Picks one of several possibilities, again and again.
class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Below `count`.
  virtual std::size_t pick(std::size_t count) = 0;
};

/// Goes through all that may be picked: as long as `next` is true there is another sequence.
class EveryChoice : public Chooser {
 public:
  std::size_t pick(std::size_t count) override;
  bool next();

 private:
  struct Pick {
    std::size_t made;
    std::size_t count;
  };
  std::vector<Pick> picks_;
  std::size_t at_ = 0;
};

using SimulatedFiles = std::map<std::string, net::Bytes>;

/// One change of a disk, or of the part of it that is safe.
struct DiskOperation {
  enum class Kind : std::uint8_t { create, append, truncate, sync, rename, remove, sync_names };
  Kind kind;
  std::size_t file = 0;     ///< of those that were ever made
  std::string name{};       ///< of a name that is given or taken away
  std::string to{};         ///< of a rename
  net::Bytes bytes{};       ///< of an append
  std::uint64_t size = 0;   ///< of a truncation
  bool is_refused = false;  ///< half of an append is done then, and nothing else
};

/// The contents of a disk, the contents that it would have if everything were synced now, and the
/// possible states between them.
class DiskContent {
 public:
  explicit DiskContent(const SimulatedFiles& files);

  void apply(const DiskOperation& operation);
  /// The names as running processes see them.
  const std::map<std::string, std::size_t>& names() const { return now_; }
  const net::Bytes& bytes_of(std::size_t file) const { return files_[file].versions.back(); }
  std::size_t files() const { return files_.size(); }
  /// The files if the machine goes down now. Each name that was not synced is there or not. A file
  /// that was not synced has a state that any of its changes left: cut, or with zeros, or with
  /// other bytes in place of the written ones.
  SimulatedFiles after_power_cut(Chooser& chooser) const;

 private:
  struct File {
    std::vector<net::Bytes> versions;  ///< the first is on the disk
    bool has_failed = false;  ///< a sync was refused: those after it do nothing, and do not say so
  };
  struct NameChange {
    std::string gone;
    std::string there;
    std::size_t file = 0;
  };

  static net::Bytes content_of(const File& file, bool is_unfinished, Chooser& chooser);
  void change(NameChange change);

  std::vector<File> files_;
  std::map<std::string, std::size_t> now_;
  std::map<std::string, std::size_t> synced_;
  std::vector<NameChange> changes_;  ///< of names, since they were synced
};

/// A disk that keeps a log of all operations.
class SimulatedDisk : public base::Disk {
 public:
  /// A disk with these files, on which these operations were done.
  explicit SimulatedDisk(SimulatedFiles files = {}, std::vector<DiskOperation> operations = {});

  /// The contents after this many of its operations.
  DiskContent content_after(std::size_t operations) const;
  /// The disk as it was then, with all that was not synced.
  std::shared_ptr<SimulatedDisk> until(std::size_t operations) const;
  const std::vector<DiskOperation>& operations() const { return operations_; }
  /// Refuses the next operation after this many.
  void refuse_after(std::size_t count) { refused_ = operations_.size() + count; }

  std::vector<std::string> names() const override;
  std::unique_ptr<base::ReadableFile> open(const std::string& name) const override;
  std::unique_ptr<base::WritableFile> create(const std::string& name) override;
  bool rename(const std::string& from, const std::string& to) override;
  bool remove(const std::string& name) override;
  bool sync() override;

 private:
  class Written;

  bool perform(DiskOperation operation);

  const SimulatedFiles first_;
  std::vector<DiskOperation> operations_;
  DiskContent content_;
  std::optional<std::size_t> refused_;
};

}  // namespace tutti::ps
