#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dataset {

/// Throws `invalid_argument` about a file.
[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why);

/// All bytes of a file. If the file cannot be read, throws `invalid_argument`, which says what the
/// file should have held.
std::vector<std::uint8_t> read_all(const std::filesystem::path& file, const std::string& what);

}  // namespace dataset
