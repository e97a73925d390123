#include "dataset/file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tutti/error.h"

namespace dataset {

void refuse(const std::filesystem::path& file, const std::string& why) {
  throw tutti::Error(tutti::ErrorCode::invalid_argument, file.string() + ": " + why);
}

std::vector<std::uint8_t> read_all(const std::filesystem::path& file, const std::string& what) {
  if (std::filesystem::is_directory(file)) refuse(file, "is a folder; expected " + what);
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    const std::string reason = std::strerror(errno);
    const bool zipped = std::filesystem::exists(file.string() + ".gz");
    refuse(file, "expected " + what + ", but it cannot be opened: " + reason +
                     (zipped ? " (there is a .gz beside it: gunzip it first)" : ""));
  }
  std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) refuse(file, "reading it failed");
  return bytes;
}

}  // namespace dataset
