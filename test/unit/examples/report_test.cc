// The output and the files of a run.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../folder.h"
#include "training/console.h"
#include "training/curves.h"
#include "tutti/error.h"

using Catch::Matchers::Contains;

namespace {

training::EpochResult epoch(int number) {
  return {.epoch = number,
          .train_loss = 0.5,
          .train_accuracy = 0.75,
          .test_accuracy = 0.958333333,
          .step_loss = {0.6, 0.4},
          .samples_per_second = {100, 200},
          .all_samples_per_second = 290};
}

training::History history() {
  return {.epochs = {epoch(0), epoch(1)},
          .workers = 2,
          .parameters = 5,
          .steps = 4,
          .gradient_bytes = 80,
          .weights_sha256 = "abc"};
}

/// Returns the written text, and closes the file.
std::string text_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("an epoch is reported in the words that scripts look for") {
  CHECK(training::describe(epoch(3)) ==
        "Epoch 3: Train_loss 0.500000 Train_acc 0.750000\n"
        "Epoch 3: Test_acc 0.958333\n"
        "Epoch 3: 290 samples/s together, by worker: 100 200");
  training::EpochResult untested = epoch(3);
  untested.test_accuracy.reset();
  CHECK_THAT(training::describe(untested), !Contains("Test_acc"));
}

TEST_CASE("a run's numbers can be read back from its file") {
  const tutti::Folder folder;
  training::write_json(folder.path() + "/run.json", {}, history());
  const auto json = nlohmann::json::parse(std::ifstream(folder.path() + "/run.json"));
  CHECK(json["network"] == "lenet");
  CHECK(json["workers"] == 2);
  CHECK(json["gradient_bytes_reduced"] == 80);
  CHECK(json["weights_sha256"] == "abc");
  REQUIRE(json["epochs"].size() == 2);
  CHECK(json["epochs"][1]["train_loss"] == 0.5);
  CHECK(json["epochs"][1]["test_accuracy"] == 0.958333333);
  CHECK(json["epochs"][1]["step_loss"] == std::vector<double>{0.6, 0.4});
}

TEST_CASE("a file that cannot be written is refused before the training") {
  try {
    training::check_writable("/nonexistent/curves.png");
    FAIL("nothing was refused");
  } catch (const tutti::Error& error) {
    CHECK(error.code() == tutti::ErrorCode::invalid_argument);
    CHECK_THAT(error.what(), Contains("/nonexistent/curves.png") && Contains("No such file"));
  }
}

TEST_CASE("asking whether a file can be written neither makes nor changes one") {
  const tutti::Folder folder;
  training::check_writable(folder.path() + "/new");
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/new"));
  training::check_writable(folder.file("old", {1, 2}));
  CHECK(std::filesystem::file_size(folder.path() + "/old") == 2);
}

TEST_CASE("progress within an epoch is a line twice a minute where there is no terminal") {
  std::FILE* file = std::tmpfile();
  const training::Progress::Clock::time_point start{};
  training::Progress progress(file, false, start);
  const nn::Score score{.loss = 40, .correct = 5, .samples = 20};
  for (int second = 0; second <= 100; ++second) {
    progress.show({0, 3, static_cast<std::size_t>(second), 800, false}, score,
                  start + std::chrono::seconds(second));
  }
  progress.show({0, 3, 0, 70, true}, {}, start + std::chrono::seconds(101));
  progress.show({0, 3, 35, 70, true}, {}, start + std::chrono::seconds(141));
  progress.clear();
  CHECK(text_of(file) ==
        "epoch 1/3 step 30/800 loss 2.0000 acc 0.2500, 13 min to go\n"
        "epoch 1/3 step 60/800 loss 2.0000 acc 0.2500, 12 min to go\n"
        "epoch 1/3 step 90/800 loss 2.0000 acc 0.2500, 12 min to go\n"
        "epoch 1/3 test batch 35/70, 40 s to go\n");
}

TEST_CASE("progress on a terminal is one line that overwrites itself and goes") {
  std::FILE* file = std::tmpfile();
  const training::Progress::Clock::time_point start{};
  training::Progress progress(file, true, start);
  for (int tenth = 0; tenth <= 2; ++tenth) {
    progress.show({1, 2, static_cast<std::size_t>(tenth), 2, false}, {},
                  start + std::chrono::milliseconds(100 * tenth));
  }
  progress.clear();
  CHECK(text_of(file) ==
        "\repoch 2/2 step 1/2 loss 0.0000 acc 0.0000, 0 s to go\x1b[K"
        "\repoch 2/2 step 2/2 loss 0.0000 acc 0.0000\x1b[K\r\x1b[K");
}

TEST_CASE("the curves are drawn into a PNG") {
  if (std::system("/usr/bin/python3 -c 'import matplotlib' 2>/dev/null") != 0) {
    WARN("skipped: python3 has no matplotlib");
    return;
  }
  const tutti::Folder folder;
  const auto image = folder.path() + "/curves.png";
  training::write_json(folder.path() + "/run.json", {}, history());
  training::draw(folder.path() + "/run.json", image);
  std::string magic(4, ' ');
  std::ifstream(image).read(magic.data(), 4);
  CHECK(magic == "\x89PNG");

  CHECK_THROWS_WITH(training::draw(folder.path() + "/absent.json", image),
                    Contains("curves.png failed") && Contains("absent.json"));
}
