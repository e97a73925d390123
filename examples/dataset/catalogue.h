#pragma once
#include <filesystem>
#include <span>
#include <string_view>

#include "dataset/images.h"

namespace dataset {

/// "digits", "mnist", "cifar10".
std::span<const std::string_view> names();

/// Reads a data set from its folder. An empty folder means the one that comes with the program,
/// which only the digits have. Throws `invalid_argument` that names the file and what is wrong.
Dataset load(std::string_view name, const std::filesystem::path& folder);

/// Random images and labels in the shape of a data set, for measuring speed; no test images.
Dataset synthetic(std::string_view name, std::size_t count);

/// Where the digits are: the first of the folders that has them.
std::filesystem::path digits_folder(std::span<const std::filesystem::path> folders);

}  // namespace dataset
