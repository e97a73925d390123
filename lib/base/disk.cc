#include "base/disk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>

#include "base/failure.h"
#include "base/printable.h"

namespace tutti::base {
namespace {

constexpr std::string_view unfinished_word = ".unfinished";

bool is_written(WritableFile& file, std::initializer_list<std::span<const std::byte>> parts) {
  return std::ranges::all_of(parts, [&](const auto part) { return file.append(part); }) &&
         file.sync();
}

}  // namespace

std::string Disk::path(const std::string& name) const {
  return (std::filesystem::path(folder_) / name).string();
}

std::unique_ptr<WritableFile> create_whole(
    Disk& disk, const std::string& name, std::initializer_list<std::span<const std::byte>> parts) {
  const std::string unfinished = unfinished_file(name, ::getpid());
  std::unique_ptr<WritableFile> file = disk.create(unfinished);
  if (!file || !is_written(*file, parts) || !disk.rename(unfinished, name)) {
    const int reason = errno;
    if (file) disk.remove(unfinished);
    throw system_failure(fmt::format("write {}", printable(disk.path(name))), reason);
  }
  if (disk.sync()) return file;
  throw system_failure(fmt::format("write the folder of {}", printable(disk.path(name))));
}

std::string unfinished_file(const std::string& name, pid_t process) {
  return fmt::format("{}.{}{}", name, process, unfinished_word);
}

bool is_unfinished(const std::string& name) {
  return name.ends_with(unfinished_word);
}

}  // namespace tutti::base
