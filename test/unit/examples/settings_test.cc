#include "training/settings.h"

#include <catch2/catch.hpp>
#include <functional>

#include "training/memory.h"
#include "training/threads.h"
#include "tutti/error.h"

using Catch::Matchers::Contains;
using tutti::ErrorCode;

namespace {

training::Settings parse(std::vector<const char*> words) {
  words.insert(words.begin(), "train");
  return training::parse(static_cast<int>(words.size()), words.data()).value();
}

std::string refusal(ErrorCode code, const std::vector<const char*>& words) {
  try {
    parse(words);
  } catch (const tutti::Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("every option has an effect, under each of its names") {
  const auto settings = parse(
      {"--network", "mlp", "--kv-store",  "local", "--num-epochs", "3",     "--batch-size", "5",
       "--lr",      "0.5", "--momentum",  "0",     "--dataset",    "mnist", "--data-dir",   "/data",
       "--devices", "2",   "--benchmark", "1",     "--seed",       "9",     "--plot",       "a.png",
       "--json",    "b"});
  CHECK(settings.network == "mlp");
  CHECK(settings.kv_store == "local");
  CHECK(settings.epochs == 3);
  CHECK(settings.batch_size == 5);
  CHECK(settings.lr == 0.5);
  CHECK(settings.momentum == 0);
  CHECK(settings.dataset == "mnist");
  CHECK(settings.data_dir == "/data");
  CHECK(settings.work_loads == std::vector<int>{1, 1});
  CHECK(settings.benchmark);
  CHECK(settings.seed == 9);
  CHECK(settings.plot == "a.png");
  CHECK(settings.json == "b");

  const auto other =
      parse({"--model", "mlp", "--kvstore", "local", "--epochs", "3", "--work-load-list", "2,1"});
  CHECK(other.network == "mlp");
  CHECK(other.kv_store == "local");
  CHECK(other.epochs == 3);
  CHECK(other.work_loads == std::vector<int>{2, 1});
}

TEST_CASE("a type of store has the learning rate that it bears, unless another is named") {
  for (const char* type : {"device", "local", "dist_sync_mpi", "dist_sync", "dist_device_sync"}) {
    CHECK(parse({"--kv-store", type}).lr == 0.05);
  }
  for (const char* type : {"dist_async", "dist_device_async", "dist_async_device"}) {
    CHECK(parse({"--kv-store", type}).lr == 0.01);
    CHECK(parse({"--kv-store", type, "--lr", "0.5"}).lr == 0.5);
  }
}

TEST_CASE("a network gets the data set that it was drawn for, unless another is named") {
  CHECK(parse({}).dataset == "digits");
  CHECK(parse({"--network", "mlp"}).dataset == "digits");
  for (const char* network : {"resnet18", "vgg11", "vgg16"}) {
    CHECK(parse({"--network", network}).dataset == "cifar10");
    CHECK(parse({"--network", network, "--dataset", "synthetic"}).dataset == "synthetic");
  }
}

TEST_CASE("a batch that does not fit the memory is refused, with the one that does") {
  training::Settings settings = parse({"--network", "mlp", "--batch-size", "1000000"});
  // A sample has 64 numbers, and each of mlp's layers its output and the output's gradient.
  constexpr std::size_t sample = sizeof(float) * (64 + 2 * (128 + 128 + 64 + 64 + 10));
  constexpr std::size_t weights = 3 * sizeof(float) * (65 * 128 + 129 * 64 + 65 * 10);
  const auto check = [&](std::size_t images, std::size_t share) {
    training::check_memory(settings, {8, 8, 1}, images, share);
  };
  CHECK_THROWS_WITH(
      check(0, weights + 1000 * sample),
      Contains("--batch-size 1000000: mlp would take 3.2 GiB") && Contains("at most 1000 fit"));
  CHECK_THROWS_WITH(check(10, weights + 1000 * (sample + 640)), Contains("at most 1000 fit"));
  CHECK_THROWS_WITH(check(0, weights), Contains("not even a batch of 1 fits"));
  settings.batch_size = 1000;
  CHECK_NOTHROW(check(0, weights + 1000 * sample));
  CHECK_THROWS_AS(check(0, weights + 1000 * sample - 1), tutti::Error);
  settings.work_loads = {1, 1};
  CHECK_THROWS_AS(check(0, weights + 1000 * sample), tutti::Error);
}

TEST_CASE("a misspelt option is an error that suggests the right one") {
  CHECK_THAT(refusal(ErrorCode::invalid_argument, {"--newtork", "mlp"}),
             Contains("'--newtork', did you mean '--network'?"));
  CHECK_THAT(refusal(ErrorCode::invalid_argument, {"--kvstroe=local"}),
             Contains("did you mean '--kvstore'?"));
  CHECK_THAT(refusal(ErrorCode::invalid_argument, {"--unheard-of-thing"}),
             Contains("unknown option '--unheard-of-thing' (--help lists all)"));
  CHECK_THAT(refusal(ErrorCode::invalid_argument, {"digits"}),
             Contains("unexpected word 'digits'"));
}

TEST_CASE("values that cannot be are refused") {
  for (const auto& words : std::vector<std::vector<const char*>>{{"--num-epochs", "0"},
                                                                 {"--batch-size", "-1"},
                                                                 {"--lr", "fast"},
                                                                 {"--lr", "nan"},
                                                                 {"--momentum", "1.5"},
                                                                 {"--seed", "-1"},
                                                                 {"--plot", "curves.pdf"},
                                                                 {"--network", "lenett"},
                                                                 {"--work-load-list", "2,0"},
                                                                 {"--devices"}}) {
    CHECK_THAT(refusal(ErrorCode::invalid_argument, words), Contains(words[0]));
  }
}

TEST_CASE("work loads for another number of devices are refused") {
  CHECK_THAT(refusal(ErrorCode::invalid_argument, {"--devices", "3", "--work-load-list", "2,1"}),
             Contains("2 shares for --devices 3"));
}

TEST_CASE("a worker has one GPU, which the command line names") {
  CHECK_THAT(refusal(ErrorCode::unsupported, {"--gpus", "0,2"}),
             Contains("--gpus '0,2': a worker has one GPU; start a worker for each"));
  for (const char* const gpus : {"", "-1", "a", "0,"}) {
    INFO(gpus);
    CHECK_THROWS_AS(parse({"--gpus", gpus}), tutti::Error);
  }
  CHECK_THAT(refusal(ErrorCode::invalid_argument, {"--gpus", "1", "--devices", "2"}),
             Contains("--gpus '1' with several CPU devices"));
  CHECK(parse({"--gpus", "1"}).gpu == 1);
  CHECK_FALSE(parse({}).gpu);
}

TEST_CASE("processes that share processors leave some for their other threads") {
  CHECK(training::compute_threads(2, 1) == 1);
  CHECK(training::compute_threads(2, 4) == 1);
  CHECK(training::compute_threads(8, 1) == 7);
  CHECK(training::compute_threads(8, 2) == 3);
}
