#include "training/trainer.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "dataset/catalogue.h"

namespace {

/// One process that trains through a store of its own.
struct Job {
  explicit Job(const training::Settings& s)
      : settings(s), store(tutti::KVStore::create(s.kv_store)) {}

  std::vector<training::EpochResult> run() {
    std::vector<training::EpochResult> results;
    results.reserve(static_cast<std::size_t>(settings.epochs));
    exchange.broadcast_weights();
    for (int epoch = 0; epoch < settings.epochs; ++epoch) {
      results.push_back(trainer.run_epoch(
          epoch, [this](bool testing, std::size_t step, std::size_t steps, const nn::Score&) {
            (testing ? test_steps_seen : steps_seen) += step > 0 ? 1 : 0;
            CHECK(step <= steps);
          }));
    }
    return results;
  }

  training::Settings settings;
  std::unique_ptr<tutti::KVStore> store;
  dataset::Dataset data = dataset::load(settings.dataset, settings.data_dir);
  training::Worker worker{{.network = settings.network,
                           .image = data.train.extent,
                           .work_loads = settings.work_loads,
                           .lr = static_cast<float>(settings.lr),
                           .momentum = static_cast<float>(settings.momentum)},
                          settings.seed};
  training::Exchange exchange{*store, worker, settings.gpu};
  training::Trainer trainer{settings, data, worker, exchange};
  std::size_t steps_seen = 0, test_steps_seen = 0;
};

training::Settings mlp(int epochs) {
  training::Settings settings;
  settings.network = "mlp";
  settings.epochs = epochs;
  return settings;
}

}  // namespace

TEST_CASE("a network learns the digits through a store of one process") {
  Job job(mlp(6));
  const auto results = job.run();
  CHECK(results.front().step_loss.front() > 1.5);  // about the logarithm of 10
  CHECK(results.back().train_loss < 0.1);
  CHECK(results.back().train_accuracy > 0.97);
  CHECK(results.back().test_accuracy > 0.93);
  CHECK(results.back().samples_per_second.size() == 1);
  CHECK(results.back().all_samples_per_second == results.back().samples_per_second[0]);
  constexpr std::size_t steps = 6 * std::size_t{90};  // 1438 samples, 16 a step
  CHECK(job.trainer.steps() == steps);
  CHECK(job.steps_seen == steps);
  CHECK(job.test_steps_seen == 6 * std::size_t{23});  // 359 samples
}

TEST_CASE("an epoch's loss is the mean over its samples") {
  Job job(mlp(1));
  const auto result = job.run().front();
  double sum = 0;
  for (std::size_t i = 0; i < 90; ++i) sum += result.step_loss[i] * (i == 89 ? 14 : 16);
  CHECK(result.train_loss == Approx(sum / 1438));
}

TEST_CASE("bytes reduced are four times the weights times the steps") {
  training::Settings settings = mlp(2);
  settings.work_loads = {1, 1};
  Job job(settings);
  job.run();
  CHECK(job.exchange.gradient_bytes() == 4 * job.worker.weight_count() * job.trainer.steps());
}

TEST_CASE("devices that exchange through the store train like one device") {
  training::Settings settings = mlp(3);
  const auto one = Job(settings).run();
  settings.work_loads = {2, 1};
  settings.kv_store = "local";
  const auto two = Job(settings).run();
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(std::abs(one[i].train_loss - two[i].train_loss) < 1e-4);
  }
}

TEST_CASE("the same seed gives the same weights, another one others") {
  const auto hash = [](std::uint64_t seed) {
    training::Settings settings = mlp(1);
    settings.seed = seed;
    Job job(settings);
    job.run();
    return job.worker.weights_sha256();
  };
  CHECK(hash(5) == hash(5));
  CHECK(hash(5) != hash(6));
}

TEST_CASE("weights and gradients on a GPU are trained to the CPU's bits", "[.][gpu]") {
  const auto hash = [](const std::string& kv_store, std::optional<int> gpu) {
    training::Settings settings = mlp(1);
    settings.kv_store = kv_store;
    settings.gpu = gpu;
    Job job(settings);
    job.run();
    CHECK(job.exchange.gradient_bytes() == 4 * job.worker.weight_count() * job.trainer.steps());
    return job.worker.weights_sha256();
  };
  const std::string on_cpu = hash("device", {});
  CHECK(hash("device", 0) == on_cpu);
  CHECK(hash("nccl", 0) == on_cpu);
}

TEST_CASE("random data without a test set trains too") {
  Job job(mlp(1));
  job.data = dataset::synthetic("digits", 40);
  training::Trainer trainer(job.settings, job.data, job.worker, job.exchange);
  job.exchange.broadcast_weights();
  const auto result = trainer.run_epoch(0, [](bool, std::size_t, std::size_t, const nn::Score&) {});
  CHECK(result.step_loss.size() == 3);
  CHECK_FALSE(result.test_accuracy);
}
