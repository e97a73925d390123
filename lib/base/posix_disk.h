#pragma once
#include "base/disk.h"
#include "base/fd.h"

namespace tutti::base {

/// A folder of a file system. Names are looked up in the folder that was opened, even if its path
/// changes. A file that another user may have changed is not opened.
class PosixDisk : public Disk {
 public:
  /// `path` is for messages. `mode` is the mode of the files that it makes, before the umask.
  PosixDisk(const std::string& path, Fd folder, mode_t mode);

  const Fd& folder() const { return folder_; }

  std::vector<std::string> names() const override;
  std::unique_ptr<ReadableFile> open(const std::string& name) const override;
  std::unique_ptr<WritableFile> create(const std::string& name) override;
  bool rename(const std::string& from, const std::string& to) override;
  bool remove(const std::string& name) override;
  bool sync() override;

 private:
  const Fd folder_;
  const mode_t mode_;
};

/// Writes the names in a folder to the disk, if its file system can do that. Returns false if the
/// system refuses, and errno says why. Blocks.
bool sync_names(const Fd& folder);

/// Opens the file at this path. Throws `invalid_argument` if there is none.
std::unique_ptr<ReadableFile> open_to_read(const std::string& path);

}  // namespace tutti::base
