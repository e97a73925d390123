#include <string>

#include "dataset/file.h"
#include "dataset/readers.h"

namespace dataset {
namespace {

constexpr std::size_t side = 32;
constexpr std::size_t colours = 3;
constexpr std::size_t plane = side * side;
constexpr std::size_t record = 1 + colours * plane;

/// Appends a record, with its colour planes interleaved.
void append(std::span<const std::uint8_t> bytes, Images& images) {
  images.labels.push_back(bytes[0]);
  for (std::size_t pixel = 0; pixel < plane; ++pixel) {
    for (std::size_t colour = 0; colour < colours; ++colour) {
      images.pixels.push_back(bytes[1 + colour * plane + pixel]);
    }
  }
}

}  // namespace

Images read_cifar10(std::span<const std::filesystem::path> files) {
  Images images{.extent = {side, side, colours}};
  for (const std::filesystem::path& file : files) {
    const auto bytes = read_all(file, "records of CIFAR-10's binary format");
    if (bytes.empty() || bytes.size() % record != 0) {
      refuse(file, "has " + std::to_string(bytes.size()) +
                       " bytes; CIFAR-10's binary format is one record or more of " +
                       std::to_string(record) + " bytes");
    }
    for (std::size_t at = 0; at < bytes.size(); at += record) {
      if (bytes[at] >= images.classes) {
        refuse(file, "record " + std::to_string(at / record) + " has label " +
                         std::to_string(bytes[at]) + "; expected 0 to 9");
      }
      append(std::span(bytes).subspan(at, record), images);
    }
  }
  return images;
}

}  // namespace dataset
