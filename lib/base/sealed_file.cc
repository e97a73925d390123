#include "base/sealed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium/crypto_generichash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <tuple>

#include "base/failure.h"
#include "base/posix_disk.h"
#include "base/printable.h"
#include "tutti/error.h"

namespace tutti::base {
namespace {

constexpr std::string_view magic = "tutti, sealed 1\n";
using Hash = std::array<std::uint8_t, crypto_generichash_BYTES>;
constexpr std::size_t header_bytes = magic.size() + std::tuple_size_v<Hash>;

Hash hash_of(std::span<const std::uint8_t> bytes) {
  Hash hash{};
  crypto_generichash(hash.data(), hash.size(), bytes.data(), bytes.size(), nullptr, 0);
  return hash;
}

[[noreturn]] void refuse_content(const std::string& path, std::string_view why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", printable(path), why));
}

/// Returns the bytes of the file at this path.
std::vector<std::uint8_t> unsealed(const std::string& path, const ReadableFile& file) {
  std::vector<std::uint8_t> all(file.size());
  all.resize(file.read(0, std::as_writable_bytes(std::span(all))));
  if (all.size() < header_bytes || std::memcmp(all.data(), magic.data(), magic.size()) != 0) {
    refuse_content(path, "tutti did not write this file, or the file is incomplete");
  }
  const auto bytes = all.begin() + header_bytes;
  const Hash hash = hash_of({bytes, all.end()});
  if (!std::equal(hash.begin(), hash.end(), all.begin() + magic.size())) {
    refuse_content(path, "the file is damaged: its bytes are not those that tutti wrote");
  }
  all.erase(all.begin(), bytes);
  return all;
}

}  // namespace

void write_sealed(Disk& disk, const std::string& name, std::span<const std::uint8_t> bytes) {
  const Hash hash = hash_of(bytes);
  create_whole(
      disk, name,
      {std::as_bytes(std::span(magic)), std::as_bytes(std::span(hash)), std::as_bytes(bytes)});
}

void write_sealed(const std::string& path, std::span<const std::uint8_t> bytes) {
  constexpr mode_t for_all = 0666;
  const std::filesystem::path whole(path);
  const std::string parent = whole.parent_path().string();
  Fd folder(::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) throw system_failure(fmt::format("write {}", printable(path)));
  PosixDisk disk(parent, std::move(folder), for_all);
  write_sealed(disk, whole.filename().string(), bytes);
}

std::vector<std::uint8_t> read_sealed(const std::string& path) {
  return unsealed(path, *open_to_read(path));
}

std::vector<std::uint8_t> read_sealed(const Disk& disk, const std::string& name) {
  return unsealed(disk.path(name), *disk.open(name));
}

}  // namespace tutti::base
