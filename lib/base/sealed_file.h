#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/disk.h"

namespace tutti::base {

/// Writes bytes to a file, either completely or not at all: the path names the old file until the
/// new one is on the disk. The file carries a hash of the bytes. Blocks. Throws `internal` if the
/// system refuses.
void write_sealed(const std::string& path, std::span<const std::uint8_t> bytes);
void write_sealed(Disk& disk, const std::string& name, std::span<const std::uint8_t> bytes);

/// Returns the bytes of such a file. Blocks. Throws `invalid_argument` if there is no such file, if
/// `write_sealed` did not write it, or if it has been cut or changed since.
std::vector<std::uint8_t> read_sealed(const std::string& path);
std::vector<std::uint8_t> read_sealed(const Disk& disk, const std::string& name);

}  // namespace tutti::base
