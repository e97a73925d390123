#pragma once
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

/// A folder for a test's files, gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "tutti-test-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "cannot make " + pattern);
    }
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Writes a file and gives its path.
  std::filesystem::path file(const std::string& name,
                             const std::vector<std::uint8_t>& bytes) const {
    std::ofstream stream(path_ / name, std::ios::binary);
    for (const std::uint8_t byte : bytes) stream.put(static_cast<char>(byte));
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};
