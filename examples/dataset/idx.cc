#include <algorithm>
#include <string>

#include "dataset/file.h"
#include "dataset/readers.h"

namespace dataset {
namespace {

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  std::uint32_t value = 0;
  for (const std::uint8_t byte : bytes.first(4)) value = value << 8 | byte;
  return value;
}

struct Idx {
  std::vector<std::uint64_t> dims;
  std::vector<std::uint8_t> values;
};

/// Reads an IDX file: a magic number that holds the number of dimensions, the dimensions, all
/// big-endian, then the bytes.
Idx read(const std::filesystem::path& file, std::size_t dimensions, const std::string& what) {
  std::vector<std::uint8_t> bytes = read_all(file, what);
  const std::size_t header = 4 * (1 + dimensions);
  if (bytes.size() < header) {
    refuse(file, "has " + std::to_string(bytes.size()) + " bytes; " + what + " begins with " +
                     std::to_string(header) + " bytes of header");
  }
  const auto magic = static_cast<std::uint32_t>(0x0800 + dimensions);
  if (big_endian(bytes) != magic) {
    refuse(file, "begins with the magic number " + std::to_string(big_endian(bytes)) + "; " + what +
                     " begins with " + std::to_string(magic));
  }
  Idx idx;
  std::uint64_t size = 1;
  for (std::size_t i = 1; i <= dimensions; ++i) {
    idx.dims.push_back(big_endian(std::span(bytes).subspan(4 * i)));
    // Three dimensions of 32 bits can overflow 64 bits. The size is then set to one that no file
    // has.
    const bool huge = __builtin_mul_overflow(size, idx.dims.back(), &size);
    if (huge) size = ~std::uint64_t{0} - header;
  }
  if (bytes.size() - header != size) {
    refuse(file, "has " + std::to_string(bytes.size()) + " bytes; its header says there are " +
                     std::to_string(size) + " after the header's " + std::to_string(header));
  }
  idx.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end());
  return idx;
}

}  // namespace

Images read_idx(const std::filesystem::path& images, const std::filesystem::path& labels) {
  Idx pixels = read(images, 3, "a file of images in MNIST's IDX format");
  Idx classes = read(labels, 1, "a file of labels in MNIST's IDX format");
  if (pixels.dims[0] != classes.dims[0]) {
    refuse(labels, "has " + std::to_string(classes.dims[0]) + " labels for the " +
                       std::to_string(pixels.dims[0]) + " images of " + images.string());
  }
  if (pixels.values.empty()) refuse(images, "has no images");
  Images result;
  result.extent = {static_cast<std::int64_t>(pixels.dims[1]),
                   static_cast<std::int64_t>(pixels.dims[2]), 1};
  const auto wrong = std::ranges::find_if(
      classes.values, [&](std::uint8_t label) { return label >= result.classes; });
  if (wrong != classes.values.end()) {
    refuse(labels, "label " + std::to_string(wrong - classes.values.begin()) + " is " +
                       std::to_string(*wrong) + "; expected 0 to 9");
  }
  result.pixels = std::move(pixels.values);
  result.labels = std::move(classes.values);
  return result;
}

}  // namespace dataset
