#pragma once
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tutti {

/// A folder for a test's files, gone with its owner.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "tutti-test-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  /// Writes a file and gives its path.
  std::filesystem::path file(const std::string& name,
                             const std::vector<std::uint8_t>& bytes) const {
    std::filesystem::path file = path_ + "/" + name;
    std::ofstream stream(file, std::ios::binary);
    for (const std::uint8_t byte : bytes) stream.put(static_cast<char>(byte));
    return file;
  }

 private:
  std::string path_;
};

}  // namespace tutti
