#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dataset {

/// Throws `invalid_argument` about a file.
[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why);

/// All bytes of a file. Throws `invalid_argument` that says what it was to be when it cannot be
/// read.
std::vector<std::uint8_t> read_all(const std::filesystem::path& file, const std::string& what);

}  // namespace dataset
