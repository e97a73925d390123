#pragma once
#include <filesystem>
#include <span>

#include "dataset/images.h"

namespace dataset {

/// Reads MNIST's format: a file of images and a file of as many labels. Throws `invalid_argument`,
/// which names the file and says what was expected of it.
Images read_idx(const std::filesystem::path& images, const std::filesystem::path& labels);

/// Reads CIFAR-10's binary format: records of a label and a 32×32 image of three colour planes, in
/// any number of files. Throws the same errors as read_idx.
Images read_cifar10(std::span<const std::filesystem::path> files);

}  // namespace dataset
