// Workers that share a batch learn what one worker learns that has all of it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "ps/local_job.h"

using namespace tutti;
using Floats = std::vector<float>;

namespace {

constexpr std::size_t inputs = 6;
constexpr std::size_t hidden = 8;
constexpr std::size_t batch = 24;  // of all workers
constexpr unsigned steps = 60;

/// A layer of tanh and a linear one; or the gradients of both.
struct Network {
  Floats first = Floats(hidden * inputs);
  Floats second = Floats(hidden);

  Floats all() const {
    Floats both = first;
    both.insert(both.end(), second.begin(), second.end());
    return both;
  }
};

float draw(std::mt19937& random) {
  return static_cast<float>(random() % 2001) / 1000.0F - 1;
}

Network begin() {
  Network network;
  std::mt19937 random(7);
  for (Floats* layer : {&network.first, &network.second}) {
    for (float& weight : *layer) weight = draw(random);
  }
  return network;
}

/// Adds the gradient of half the squared error on one sample.
void add_gradient(const Network& network, const Floats& x, float target, Network& sum) {
  Floats h(hidden);
  float error = -target;
  for (std::size_t i = 0; i < hidden; ++i) {
    for (std::size_t k = 0; k < inputs; ++k) h[i] += network.first[i * inputs + k] * x[k];
    h[i] = std::tanh(h[i]);
    error += network.second[i] * h[i];
  }
  for (std::size_t i = 0; i < hidden; ++i) {
    sum.second[i] += error * h[i];
    const float back = error * network.second[i] * (1 - h[i] * h[i]);
    for (std::size_t k = 0; k < inputs; ++k) sum.first[i * inputs + k] += back * x[k];
  }
}

/// The gradients of a part of a step's samples.
Network gradients(const Network& network, unsigned step, std::size_t part, std::size_t parts) {
  Network sum;
  std::mt19937 random(step);
  for (std::size_t sample = 0; sample < batch; ++sample) {
    Floats x(inputs);
    for (float& value : x) value = draw(random);
    const float target = x[0] * x[1] - std::abs(x[2]);
    if (sample * parts / batch == part) add_gradient(network, x, target, sum);
  }
  return sum;
}

Floats trained(KVStore& kv, const Optimizer& optimizer, std::size_t devices) {
  Network network = begin();
  kv.set_optimizer(optimizer);
  kv.init({"first", "second"}, {tensor(network.first), tensor(network.second)});
  const auto parts = static_cast<std::size_t>(kv.num_workers()) * devices;
  for (unsigned step = 0; step < steps; ++step) {
    std::vector<Network> own;
    for (std::size_t i = 0; i < devices; ++i) {
      own.push_back(
          gradients(network, step, static_cast<std::size_t>(kv.rank()) * devices + i, parts));
    }
    std::vector<Tensor> first;
    std::vector<Tensor> second;
    for (Network& one : own) {
      first.push_back(tensor(one.first));
      second.push_back(tensor(one.second));
    }
    kv.push({"first", "second"}, {Values(first), Values(second)});
    kv.pull({"first", "second"}, {tensor(network.first), tensor(network.second)}).wait();
  }
  return network.all();
}

/// The weights with which every worker ends. Layers have 48 and 8 weights, so that one of them is
/// split over servers.
std::vector<Floats> trained(int workers, int servers, const Optimizer& optimizer,
                            std::size_t devices = 1) {
  LocalJob job({.workers = workers, .servers = servers, .big_count = 20});
  std::vector<Floats> ends(static_cast<std::size_t>(workers));
  const auto said = job.run([&](KVStore& kv) {
    ends[static_cast<std::size_t>(kv.rank())] = trained(kv, optimizer, devices);
    return "";
  });
  CHECK(said == std::vector<std::string>(ends.size()));
  return ends;
}

float largest_difference(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("workers train like one with their joint batch where servers update") {
  const Optimizer optimizer = GENERATE(
      Optimizer{
          "sgd",
          {{"learning_rate", 0.1}, {"momentum", 0.9}, {"wd", 0.01}, {"rescale_grad", 1.0 / batch}}},
      Optimizer{"adam", {{"learning_rate", 0.02}, {"wd", 0.01}, {"rescale_grad", 1.0 / batch}}});
  INFO(optimizer.name);
  const Floats alone = trained(1, 1, optimizer)[0];
  // It has learnt something that a mistake could change.
  CHECK(largest_difference(alone, begin().all()) > 0.3F);
  struct Size {
    int workers, servers;
    std::size_t devices;
  };
  for (const auto& [workers, servers, devices] : {Size{2, 2, 1}, {3, 1, 1}, {4, 3, 1}, {2, 3, 2}}) {
    INFO(workers << " workers of " << devices << " devices, " << servers << " servers");
    const std::vector<Floats> ends = trained(workers, servers, optimizer, devices);
    CHECK(std::ranges::count(ends, ends[0]) == workers);
    CHECK(largest_difference(ends[0], alone) < 1e-4F);
  }
}
