#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include "fuzz/decoders.h"

namespace tutti::fuzz {

/// A folder for the files of a fuzzer's inputs. It is removed with its owner.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "tutti-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) fail("no folder for files");
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tutti::fuzz
