#include "dataset/catalogue.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "dataset/file.h"
#include "dataset/readers.h"
#include "tutti/error.h"

namespace dataset {
namespace {

namespace fs = std::filesystem;

constexpr const char* digits_images = "digits-images-idx3-ubyte";

/// Every fifth image, counted from one, is for testing. The split is not random, and each writer of
/// the digits has images on both sides.
Dataset hold_out_every_fifth(const Images& all) {
  const auto size = static_cast<std::size_t>(all.extent.count());
  Images none = all;
  none.pixels.clear();
  none.labels.clear();
  Dataset split{none, none};
  for (std::size_t i = 0; i < all.count(); ++i) {
    Images& part = i % 5 == 4 ? split.test : split.train;
    const auto image = std::span(all.pixels).subspan(i * size, size);
    part.pixels.insert(part.pixels.end(), image.begin(), image.end());
    part.labels.push_back(all.labels[i]);
  }
  return split;
}

Dataset load_digits(const fs::path& folder) {
  const fs::path installed[] = {TUTTI_EXAMPLES_DATA, TUTTI_EXAMPLES_DATA_INSTALLED};
  const fs::path from = folder.empty() ? digits_folder(installed) : folder;
  Images all = read_idx(from / digits_images, from / "digits-labels-idx1-ubyte");
  all.brightest = 16;
  const auto brighter = std::ranges::find_if(
      all.pixels, [&](std::uint8_t pixel) { return static_cast<float>(pixel) > all.brightest; });
  if (brighter != all.pixels.end()) {
    refuse(from / digits_images,
           "has a pixel of " + std::to_string(*brighter) + "; the digits' pixels are 0 to 16");
  }
  return hold_out_every_fifth(all);
}

Dataset load_mnist(const fs::path& folder) {
  Dataset mnist{read_idx(folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"),
                read_idx(folder / "t10k-images-idx3-ubyte", folder / "t10k-labels-idx1-ubyte")};
  if (mnist.train.extent != mnist.test.extent) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       (folder / "t10k-images-idx3-ubyte").string() +
                           ": its images have another size than the training images");
  }
  return mnist;
}

Dataset load_cifar10(const fs::path& folder) {
  // The published archive unpacks into a folder of this name.
  const fs::path unpacked = folder / "cifar-10-batches-bin";
  const fs::path from = fs::exists(unpacked) ? unpacked : folder;
  std::vector<fs::path> train;
  for (int i = 1; i <= 5; ++i) train.push_back(from / ("data_batch_" + std::to_string(i) + ".bin"));
  const fs::path test[] = {from / "test_batch.bin"};
  return {read_cifar10(train), read_cifar10(test)};
}

/// Ten random images, one for each class. A sample is one of them with the same amount of noise
/// added. The data are easy to learn. Each process makes the same data again.
Dataset load_synthetic(const fs::path& /*folder*/) {
  constexpr std::size_t train = 1000;
  constexpr std::size_t test = 200;
  const nn::Extent extent{32, 32, 3};
  const auto size = static_cast<std::size_t>(extent.count());
  std::mt19937_64 random(1);
  std::vector<std::uint8_t> faces(10 * size);
  for (std::uint8_t& pixel : faces) pixel = static_cast<std::uint8_t>(random() >> 57);
  const auto draw = [&](std::size_t count) {
    Images images{.extent = extent};
    for (std::size_t i = 0; i < count; ++i) {
      images.labels.push_back(static_cast<std::uint8_t>(i % 10));
      for (const std::uint8_t pixel : std::span(faces).subspan(i % 10 * size, size)) {
        images.pixels.push_back(static_cast<std::uint8_t>(pixel + (random() >> 57)));
      }
    }
    return images;
  };
  Images first = draw(train);
  return {std::move(first), draw(test)};
}

struct Entry {
  std::string_view name;
  nn::Extent extent;
  Dataset (*load)(const fs::path& folder);
};

constexpr std::array entries{
    Entry{"digits", {8, 8, 1}, load_digits}, Entry{"mnist", {28, 28, 1}, load_mnist},
    Entry{"cifar10", {32, 32, 3}, load_cifar10}, Entry{"synthetic", {32, 32, 3}, load_synthetic}};

const Entry& find(std::string_view name) {
  const auto* entry = std::ranges::find(entries, name, &Entry::name);
  if (entry != entries.end()) return *entry;
  throw tutti::Error(tutti::ErrorCode::invalid_argument,
                     "there is no data set '" + std::string(name) + "'");
}

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> all;
  all.reserve(entries.size());
  for (const Entry& entry : entries) all.emplace_back(entry.name);
  return all;
}

nn::Extent extent(std::string_view name) {
  return find(name).extent;
}

std::string usual_for(const nn::Extent& image) {
  const auto* entry = std::ranges::find(entries, image, &Entry::extent);
  return entry == entries.end() ? "" : std::string(entry->name);
}

Dataset load(std::string_view name, const fs::path& folder) {
  const Entry& entry = find(name);
  if (folder.empty() && name != "digits" && name != "synthetic") {
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       "data set '" + std::string(name) +
                           "' does not come with the program: say where its files are with "
                           "--data-dir, train on random images with --dataset synthetic, or "
                           "measure speed with --benchmark 1");
  }
  return entry.load(folder);
}

Dataset synthetic(std::string_view name, std::size_t count) {
  Images train{.extent = find(name).extent};
  std::mt19937_64 random(count);
  train.pixels.resize(count * static_cast<std::size_t>(train.extent.count()));
  for (std::uint8_t& pixel : train.pixels) pixel = static_cast<std::uint8_t>(random() >> 56);
  train.labels.resize(count);
  for (std::uint8_t& label : train.labels) label = static_cast<std::uint8_t>(random() % 10);
  return {std::move(train), {}};
}

fs::path digits_folder(std::span<const fs::path> folders) {
  std::string looked;
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / digits_images)) return folder;
    looked += (looked.empty() ? "" : " and ") + folder.string();
  }
  throw tutti::Error(tutti::ErrorCode::invalid_argument, std::string(digits_images) +
                                                             " was not found; looked in " + looked +
                                                             ". Say where it is with --data-dir");
}

}  // namespace dataset
