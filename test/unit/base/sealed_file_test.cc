#include "base/sealed_file.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "../errors.h"
#include "../folder.h"

using namespace tutti;
using namespace tutti::base;
using Catch::Matchers::Contains;

namespace {

const std::vector<std::uint8_t> bytes{1, 2, 3, 250};

std::size_t files_in(const std::string& folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

/// The error number with which the system refuses to sync a folder.
int folder_failure = 0;

}  // namespace

/// Replaces the system's function.
extern "C" int fsync(int file) {
  struct stat status {};
  const bool is_folder = ::fstat(file, &status) == 0 && S_ISDIR(status.st_mode);
  if (!is_folder || folder_failure == 0) return static_cast<int>(::syscall(SYS_fsync, file));
  errno = folder_failure;
  return -1;
}

TEST_CASE("a sealed file gives back the bytes, and the last ones written") {
  const tutti::Folder folder;
  const std::string path = folder.path() + "/states";
  write_sealed(path, std::vector<std::uint8_t>(1000, 7));
  write_sealed(path, bytes);
  CHECK(read_sealed(path) == bytes);
  write_sealed(path, {});
  CHECK(read_sealed(path).empty());
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a sealed file that was cut or changed anywhere is refused by name") {
  const tutti::Folder folder;
  const std::string path = folder.path() + "/states";
  write_sealed(path, bytes);
  const auto size = static_cast<std::size_t>(std::filesystem::file_size(path));
  for (std::size_t at = 0; at < size; ++at) {
    write_sealed(path, bytes);
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const char other = static_cast<char>(file.get() ^ 1);
      file.seekp(static_cast<std::streamoff>(at));
      file.put(other);
    }
    CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { read_sealed(path); }), Contains(path));
    write_sealed(path, bytes);
    std::filesystem::resize_file(path, at);
    CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { read_sealed(path); }), Contains(path));
  }
}

TEST_CASE("a path that is no sealed file is refused without waiting") {
  const tutti::Folder folder;
  const auto refused = [&](const std::string& name) {
    return text_of(ErrorCode::invalid_argument, [&] { read_sealed(folder.path() + "/" + name); });
  };
  CHECK_THAT(refused("missing"), Contains("No such file"));
  REQUIRE(::mkfifo((folder.path() + "/pipe").c_str(), 0600) == 0);
  CHECK_THAT(refused("pipe"), Contains("no regular file"));
}

TEST_CASE("a file that cannot be written leaves the old one and nothing else") {
  const tutti::Folder folder;
  const std::string path = folder.path() + "/states";
  std::filesystem::create_directory(path);
  CHECK_THAT(text_of(ErrorCode::internal, [&] { write_sealed(path, bytes); }), Contains(path));
  CHECK(files_in(folder.path()) == 1);
  CHECK_THAT(text_of(ErrorCode::internal, [&] { write_sealed("/nowhere/states", bytes); }),
             Contains("cannot write /nowhere/states: No such file or directory"));
}

TEST_CASE("a file is not written until its name is on the disk, where names can be put there") {
  const tutti::Folder folder;
  const std::string path = folder.path() + "/states";
  folder_failure = EIO;
  CHECK_THAT(text_of(ErrorCode::internal, [&] { write_sealed(path, bytes); }),
             Contains("cannot write the folder of " + path + ": Input/output error"));
  folder_failure = EINVAL;
  write_sealed(path, {});
  folder_failure = 0;
  CHECK(read_sealed(path).empty());
}
