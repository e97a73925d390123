#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

using tutti::base::open_regular;

namespace {

/// A folder with a file, a pipe, and links to the file and to a device.
struct Folder {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tutti-regular-" + std::to_string(::getpid()));
  Folder() {
    std::filesystem::create_directory(path);
    ::mkfifo((path / "pipe").c_str(), 0600);
    std::filesystem::create_symlink(path / "file", path / "to file");
    std::filesystem::create_symlink("/dev/full", path / "to device");
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

constexpr int to_write = O_WRONLY | O_CREAT | O_TRUNC;

}  // namespace

TEST_CASE("a regular file is made and opened, also through a link when links are followed") {
  const Folder folder;
  CHECK(open_regular(folder.path / "file", to_write | O_NOFOLLOW).failure.empty());
  CHECK(open_regular(folder.path / "to file", O_RDONLY).file);
  CHECK(open_regular(folder.path / "to file", O_RDONLY | O_NOFOLLOW).failure ==
        "it is no regular file");
}

TEST_CASE("a pipe and a device are refused at once, for what they are") {
  const Folder folder;
  for (const int flags : {to_write, O_RDONLY, to_write | O_NOFOLLOW}) {
    for (const char* name : {"pipe", "to device"}) {
      const auto opened = open_regular(folder.path / name, flags);
      CHECK_FALSE(opened.file);
      CHECK(opened.failure == "it is no regular file");
    }
  }
}

TEST_CASE("a file that cannot be opened is told with its reason") {
  const Folder folder;
  CHECK(open_regular("/no/such/folder/trace.json", to_write).failure ==
        "No such file or directory");
  CHECK(open_regular(folder.path, to_write).failure == "Is a directory");
  CHECK(open_regular(folder.path, O_RDONLY).failure == "it is no regular file");
}
