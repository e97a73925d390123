#include "training/worker.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "dataset/catalogue.h"
#include "dataset/sampler.h"
#include "nn/zoo.h"
#include "training/sha256.h"

using training::Worker;

namespace {

/// Adds up the gradients of all devices of all workers in f32 and gives everyone the sum: what a
/// store does.
void exchange(std::vector<Worker>& workers, std::size_t layer) {
  for (std::size_t p = 0; p < workers[0].layer(layer).size(); ++p) {
    std::vector<float> sum(workers[0].layer(layer)[p].copies[0]->gradient.count());
    for (const Worker& worker : workers) {
      for (const nn::Parameter* copy : worker.layer(layer)[p].copies) {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += copy->gradient.as<float>()[i];
      }
    }
    for (const Worker& worker : workers) {
      for (const nn::Parameter* copy : worker.layer(layer)[p].copies) {
        std::ranges::copy(sum, copy->gradient.as<float>());
      }
    }
  }
}

struct Run {
  std::string network;
  int workers = 1;
  std::vector<int> work_loads = {1};
  std::size_t batch_size = 64;
};

/// The mean loss of each epoch.
std::vector<double> train(const Run& run, const dataset::Images& images, int epochs = 3) {
  std::vector<Worker> workers;
  std::vector<dataset::Sampler> samplers;
  for (int i = 0; i < run.workers; ++i) {
    workers.emplace_back(Worker::Plan{.network = run.network,
                                      .image = images.extent,
                                      .work_loads = run.work_loads,
                                      .lr = 0.05F,
                                      .momentum = 0.9F},
                         1);
    samplers.emplace_back(dataset::Sampler::Sharding{.samples = images.count(),
                                                     .batch_size = run.batch_size,
                                                     .num_parts = run.workers,
                                                     .part_index = i});
  }
  std::vector<double> losses;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    nn::Score score;
    for (auto& sampler : samplers) sampler.start_epoch(static_cast<std::uint64_t>(epoch));
    for (std::size_t step = 0; step < samplers[0].steps(); ++step) {
      for (std::size_t i = 0; i < workers.size(); ++i) {
        score += workers[i].compute(images, samplers[i].batch(step), [](std::size_t) {});
      }
      for (std::size_t layer = 0; layer < workers[0].layer_count(); ++layer) {
        exchange(workers, layer);
        for (Worker& worker : workers) {
          worker.update(layer, samplers[0].global_batch_size(step));
        }
      }
    }
    losses.push_back(score.loss / static_cast<double>(score.samples));
    for (const Worker& worker : workers) {
      CHECK(worker.weights_sha256() == workers[0].weights_sha256());
    }
  }
  return losses;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

Worker make_worker(std::vector<int> work_loads, const dataset::Images& images) {
  return Worker({.network = "mlp", .image = images.extent, .work_loads = std::move(work_loads)}, 1);
}

}  // namespace

TEST_CASE("n workers with a batch of b train like one with a batch of n times b") {
  const std::string network = GENERATE("mlp", "lenet");
  const dataset::Dataset digits = dataset::load("digits", "");
  const auto one = train({.network = network, .batch_size = 60}, digits.train);
  CHECK(one.back() < 0.7 * one.front());
  for (const int n : {2, 3, 4}) {
    INFO(n << " workers");
    const Run run{.network = network, .workers = n, .batch_size = 60 / static_cast<std::size_t>(n)};
    CHECK(largest_difference(train(run, digits.train), one) < 1e-4);
  }
}

TEST_CASE("two devices in each of two workers train like four workers") {
  const std::string network = GENERATE("mlp", "lenet");
  const dataset::Dataset digits = dataset::load("digits", "");
  const auto four = train({.network = network, .workers = 4, .batch_size = 16}, digits.train);
  const auto two = train({.network = network, .workers = 2, .work_loads = {1, 1}, .batch_size = 32},
                         digits.train);
  CHECK(largest_difference(four, two) < 1e-4);
}

TEST_CASE("devices with unequal work loads train like one device") {
  const dataset::Dataset digits = dataset::load("digits", "");
  const auto one = train({.network = "mlp", .batch_size = 30}, digits.train);
  const auto three =
      train({.network = "mlp", .work_loads = {3, 1, 2}, .batch_size = 30}, digits.train);
  CHECK(largest_difference(one, three) < 1e-4);
}

TEST_CASE("split_and_load gives each device its part of the batch in proportion") {
  const dataset::Dataset data = dataset::synthetic("digits", 20);
  std::vector<training::Replica> devices;
  devices.reserve(2);
  for (int i = 0; i < 2; ++i) {
    devices.push_back({nn::make_network("mlp", data.train.extent, 10, {}), {}, {}});
  }
  const std::vector<std::uint32_t> batch{19, 3, 5, 7, 11, 0};
  training::split_and_load(data.train, batch, std::vector<int>{2, 1}, devices);
  const auto label = [&](std::size_t i) { return data.train.labels[batch[i]]; };
  CHECK(devices[0].labels == std::vector{label(0), label(1), label(2), label(3)});
  CHECK(devices[1].labels == std::vector{label(4), label(5)});
  CHECK(devices[1].network.resize(2)[64] == static_cast<float>(data.train.pixels[0]) / 255.0F);
}

TEST_CASE("a worker without samples contributes gradients of zero") {
  const dataset::Dataset data = dataset::synthetic("digits", 4);
  Worker worker = make_worker({1, 1}, data.train);
  const std::vector<std::uint32_t> all{0, 1, 2, 3};
  worker.compute(data.train, all, [](std::size_t) {});
  const nn::Score score = worker.compute(data.train, {}, [](std::size_t) {});
  CHECK(score.samples == 0);
  for (std::size_t layer = 0; layer < worker.layer_count(); ++layer) {
    for (const training::Shared& shared : worker.layer(layer)) {
      for (const nn::Parameter* copy : shared.copies) {
        const float* gradient = copy->gradient.as<float>();
        CHECK(std::all_of(gradient, gradient + copy->gradient.count(),
                          [](float g) { return g == 0.0F; }));
      }
    }
  }
}

TEST_CASE("layers are reported ready from the last to the first") {
  const dataset::Dataset data = dataset::synthetic("digits", 4);
  Worker worker = make_worker({1}, data.train);
  std::vector<std::size_t> order;
  worker.compute(data.train, std::vector<std::uint32_t>{0, 1},
                 [&](std::size_t layer) { order.push_back(layer); });
  CHECK(order == std::vector<std::size_t>{4, 2, 0});  // between them are ReLUs
}

TEST_CASE("a device whose weights drifted from the others' is an error") {
  const dataset::Dataset data = dataset::synthetic("digits", 4);
  Worker worker = make_worker({1, 1}, data.train);
  CHECK(worker.weights_sha256().size() == 64);
  worker.layer(2)[1].copies[1]->value.as<float>()[0] += 1;
  CHECK_THROWS_WITH(worker.weights_sha256(), "'fc2_bias' differs between cpu(0) and cpu(1)");
}

TEST_CASE("SHA-256 is the standard's") {
  training::Sha256 hash;
  hash.add("ab", 2);
  hash.add("c", 1);
  CHECK(hash.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
