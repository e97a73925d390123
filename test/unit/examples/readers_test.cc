#include "dataset/readers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>

#include "../folder.h"
#include "dataset/catalogue.h"
#include "tutti/error.h"

namespace {

using Bytes = std::vector<std::uint8_t>;
using Catch::Matchers::Contains;

/// Two images of 1×2 pixels.
Bytes idx_images() {
  return {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 10, 20, 30, 40};
}
Bytes idx_labels() {
  return {0, 0, 8, 1, 0, 0, 0, 2, 7, 3};
}

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const tutti::Error& error) {
    CHECK(error.code() == tutti::ErrorCode::invalid_argument);
    return error.what();
  }
  return "nothing was refused";
}

std::string idx_refusal(const Bytes& images, const Bytes& labels) {
  const tutti::Folder folder;
  const auto images_file = folder.file("images", images);
  const auto labels_file = folder.file("labels", labels);
  return refusal([&] { dataset::read_idx(images_file, labels_file); });
}

/// A record whose pixels are 1, 2 and 3 in the three colour planes.
Bytes cifar_record(std::uint8_t label) {
  Bytes bytes{label};
  for (std::uint8_t colour = 1; colour <= 3; ++colour) bytes.insert(bytes.end(), 1024, colour);
  return bytes;
}

}  // namespace

TEST_CASE("IDX files give their images and labels") {
  const tutti::Folder folder;
  const auto images =
      dataset::read_idx(folder.file("images", idx_images()), folder.file("labels", idx_labels()));
  CHECK(images.extent == nn::Extent{1, 2, 1});
  CHECK(images.pixels == Bytes{10, 20, 30, 40});
  CHECK(images.labels == Bytes{7, 3});
}

TEST_CASE("an IDX file that is cut short is refused") {
  Bytes images = idx_images();
  images.pop_back();
  CHECK_THAT(idx_refusal(images, idx_labels()),
             Contains("/images: has 19 bytes") && Contains("4 after the header's 16"));
  CHECK_THAT(idx_refusal(idx_images(), {0, 0, 8, 1, 0}),
             Contains("/labels: has 5 bytes") && Contains("8 bytes of header"));
}

TEST_CASE("an IDX file with more than its header says is refused") {
  Bytes labels = idx_labels();
  labels.push_back(1);
  CHECK_THAT(idx_refusal(idx_images(), labels), Contains("/labels: has 11 bytes"));
}

TEST_CASE("an IDX file of another kind is refused by its magic number") {
  CHECK_THAT(idx_refusal(Bytes(20), idx_labels()),
             Contains("/images: begins with the magic number 0") && Contains("begins with 2051"));
  CHECK_THAT(idx_refusal(idx_images(), idx_images()),
             Contains("/labels") && Contains("2051") && Contains("begins with 2049"));
}

TEST_CASE("an IDX header that claims more than memory can hold is refused") {
  Bytes images = idx_images();
  std::fill(images.begin() + 4, images.begin() + 16, std::uint8_t{0xff});
  CHECK_THAT(idx_refusal(images, idx_labels()), Contains("/images: has 20 bytes"));
}

TEST_CASE("IDX files that do not belong together are refused") {
  CHECK_THAT(idx_refusal(idx_images(), {0, 0, 8, 1, 0, 0, 0, 1, 7}),
             Contains("/labels: has 1 labels for the 2 images of"));
}

TEST_CASE("an IDX file without images is refused") {
  CHECK_THAT(
      idx_refusal({0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2}, {0, 0, 8, 1, 0, 0, 0, 0}),
      Contains("/images: has no images"));
}

TEST_CASE("a label that is no class is refused") {
  Bytes labels = idx_labels();
  labels.back() = 10;
  CHECK_THAT(idx_refusal(idx_images(), labels), Contains("/labels: label 1 is 10"));
}

TEST_CASE("a missing file is named, and a zipped one beside it is pointed out") {
  const tutti::Folder folder;
  const auto read = [&] { dataset::load("mnist", folder.path()); };
  CHECK_THAT(refusal(read), Contains("train-images-idx3-ubyte: expected") &&
                                Contains("No such file") && !Contains("gunzip"));
  folder.file("train-images-idx3-ubyte.gz", {1});
  CHECK_THAT(refusal(read), Contains("gunzip"));
}

TEST_CASE("a folder in the place of a file is refused") {
  const tutti::Folder folder;
  std::filesystem::create_directory(folder.path() + "/train-images-idx3-ubyte");
  CHECK_THAT(refusal([&] { dataset::load("mnist", folder.path()); }),
             Contains("train-images-idx3-ubyte: is a folder; expected"));
}

TEST_CASE("MNIST's four files give a training and a test set") {
  const tutti::Folder folder;
  for (const char* part : {"train", "t10k"}) {
    folder.file(std::string(part) + "-images-idx3-ubyte", idx_images());
    folder.file(std::string(part) + "-labels-idx1-ubyte", idx_labels());
  }
  const dataset::Dataset mnist = dataset::load("mnist", folder.path());
  CHECK(mnist.train.count() == 2);
  CHECK(mnist.test.count() == 2);

  Bytes wide = idx_images();
  std::swap(wide[11], wide[15]);  // 2×1 pixels
  folder.file("t10k-images-idx3-ubyte", wide);
  CHECK_THAT(refusal([&] { dataset::load("mnist", folder.path()); }),
             Contains("t10k-images-idx3-ubyte: its images have another size"));
}

TEST_CASE("CIFAR-10's records give images with interleaved colours") {
  const tutti::Folder folder;
  Bytes two = cifar_record(3);
  const Bytes second = cifar_record(9);
  two.insert(two.end(), second.begin(), second.end());
  const std::vector files{folder.file("a.bin", two), folder.file("b.bin", cifar_record(0))};
  const dataset::Images images = dataset::read_cifar10(files);
  CHECK(images.extent == nn::Extent{32, 32, 3});
  CHECK(images.labels == Bytes{3, 9, 0});
  REQUIRE(images.pixels.size() == std::size_t{3} * 3072);
  CHECK(Bytes(images.pixels.begin(), images.pixels.begin() + 6) == Bytes{1, 2, 3, 1, 2, 3});
}

TEST_CASE("a CIFAR-10 file of the wrong size or with a wrong label is refused") {
  const tutti::Folder folder;
  const auto refusal_of = [&](const Bytes& bytes) {
    const std::vector files{folder.file("batch.bin", bytes)};
    return refusal([&] { dataset::read_cifar10(files); });
  };
  Bytes cut = cifar_record(1);
  cut.pop_back();
  CHECK_THAT(refusal_of(cut), Contains("batch.bin: has 3072 bytes") && Contains("3073"));
  CHECK_THAT(refusal_of({}), Contains("batch.bin: has 0 bytes"));
  CHECK_THAT(refusal_of(cifar_record(10)), Contains("record 0 has label 10"));
}

TEST_CASE("CIFAR-10 is found in the folder that its archive unpacks into") {
  const tutti::Folder folder;
  std::filesystem::create_directory(folder.path() + "/cifar-10-batches-bin");
  for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    folder.file("cifar-10-batches-bin/" + std::string(name) + ".bin", cifar_record(2));
  }
  const dataset::Dataset cifar = dataset::load("cifar10", folder.path());
  CHECK(cifar.train.count() == 5);
  CHECK(cifar.test.count() == 1);
}

TEST_CASE("the digits that come with the program are whole, and split into two parts") {
  const dataset::Dataset digits = dataset::load("digits", "");
  CHECK(digits.train.count() == 1438);
  CHECK(digits.test.count() == 359);
  CHECK(digits.train.extent == nn::Extent{8, 8, 1});
  CHECK(std::set(digits.test.labels.begin(), digits.test.labels.end()).size() == 10);
  CHECK(*std::ranges::max_element(digits.train.pixels) == 16);

  std::vector<float> inputs(64);
  std::vector<std::uint8_t> labels(1);
  digits.train.load(std::vector<std::uint32_t>{1437}, inputs, labels);
  CHECK(*std::ranges::max_element(inputs) == 1.0F);
  CHECK(labels[0] == digits.train.labels.back());
}

TEST_CASE("digits brighter than digits are refused") {
  const tutti::Folder folder;
  folder.file("digits-images-idx3-ubyte", {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 16, 17});
  folder.file("digits-labels-idx1-ubyte", {0, 0, 8, 1, 0, 0, 0, 1, 7});
  CHECK_THAT(refusal([&] { dataset::load("digits", folder.path()); }),
             Contains("digits-images-idx3-ubyte: has a pixel of 17"));
}

TEST_CASE("digits that are nowhere are an error that says where they were looked for") {
  const std::vector<std::filesystem::path> folders{"/nonexistent/a", "/nonexistent/b"};
  CHECK_THAT(refusal([&] { dataset::digits_folder(folders); }),
             Contains("/nonexistent/a and /nonexistent/b") && Contains("--data-dir"));
}

TEST_CASE("a data set that does not come with the program needs a folder") {
  CHECK_THAT(refusal([] { dataset::load("cifar10", ""); }), Contains("--data-dir"));
}

TEST_CASE("synthetic images have the shape of the data set") {
  const dataset::Dataset random = dataset::synthetic("cifar10", 5);
  CHECK(random.train.extent == nn::Extent{32, 32, 3});
  CHECK(random.train.pixels.size() == std::size_t{5} * 3072);
  CHECK(random.train.count() == 5);
  CHECK(random.test.count() == 0);
}

TEST_CASE("the synthetic data set is the same in every process, has both parts and all classes") {
  const dataset::Dataset data = dataset::load("synthetic", "");
  CHECK(data.train.extent == nn::Extent{32, 32, 3});
  CHECK(data.train.count() == 1000);
  CHECK(data.test.count() == 200);
  CHECK(std::set(data.test.labels.begin(), data.test.labels.end()).size() == 10);
  CHECK(data.train.pixels == dataset::load("synthetic", "").train.pixels);
  // Two images of a class share a face, but not the noise.
  const auto first = std::span(data.train.pixels).first(3072);
  const auto again = std::span(data.train.pixels).subspan(std::size_t{10} * 3072, 3072);
  CHECK_FALSE(std::ranges::equal(first, again));
}
