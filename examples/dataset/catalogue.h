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
/// The extent of its images. Throws `invalid_argument` for an unknown name, as the others do.
nn::Extent extent(std::string_view name);
/// The first data set with images of this extent; empty if there is none.
std::string usual_for(const nn::Extent& image);

/// Reads a data set from its folder. An empty folder means the one that comes with the program,
/// which only the digits have; random images need none. Throws `invalid_argument`, naming the file
/// and what is wrong.
Dataset load(std::string_view name, const std::filesystem::path& folder);

/// Random images and labels in the shape of a data set, for measuring speed; no test images.
Dataset synthetic(std::string_view name, std::size_t count);

/// Where the digits are: the first of the folders that has them.
std::filesystem::path digits_folder(std::span<const std::filesystem::path> folders);

}  // namespace dataset
