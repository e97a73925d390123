#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/images.h"

namespace dataset {

/// "digits", "mnist", "cifar10", and "synthetic", which is drawn at random in CIFAR-10's shape.
std::vector<std::string> names();
/// The extent of the data set's images. All functions here throw `invalid_argument` for an unknown
/// name.
nn::Extent extent(std::string_view name);
/// The first data set with images of this extent; empty if there is none.
std::string usual_for(const nn::Extent& image);

/// Reads a data set from its folder. An empty folder means the one that comes with the program,
/// which only the digits have. Random images need no folder. Throws `invalid_argument`, which names
/// the file and says what is wrong.
Dataset load(std::string_view name, const std::filesystem::path& folder);

/// Random images and labels in the shape of a data set, for measuring speed. There are no test
/// images.
Dataset synthetic(std::string_view name, std::size_t count);

/// The first of the folders that has the digits.
std::filesystem::path digits_folder(std::span<const std::filesystem::path> folders);

}  // namespace dataset
