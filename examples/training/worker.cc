#include "training/worker.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "dataset/sampler.h"
#include "nn/zoo.h"
#include "training/sha256.h"
#include "tutti/error.h"

namespace training {
namespace {

Replica make_replica(const Worker::Plan& plan, std::uint64_t seed, int device) {
  Replica replica{
      nn::make_network(plan.network, plan.image, plan.classes, {tutti::Device::Kind::cpu, device}),
      {},
      {}};
  replica.network.initialise(seed);
  for (const nn::Parameter* parameter : replica.network.parameters()) {
    replica.velocity.emplace_back(parameter->value.count());
  }
  return replica;
}

void load(const dataset::Images& images, std::span<const std::uint32_t> samples, Replica& device) {
  device.labels.resize(samples.size());
  if (samples.empty()) return;
  images.load(samples, device.network.resize(static_cast<std::int64_t>(samples.size())),
              device.labels);
}

std::span<float> numbers(const tutti::Tensor& tensor) {
  return {tensor.as<float>(), tensor.count()};
}

}  // namespace

void split_and_load(const dataset::Images& images, std::span<const std::uint32_t> batch,
                    std::span<const int> work_loads, std::span<Replica> devices) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const dataset::Range part = dataset::part_of(batch.size(), work_loads, i);
    load(images, batch.subspan(part.begin, part.size()), devices[i]);
  }
}

Worker::Worker(const Plan& plan, std::uint64_t seed) : plan_(plan) {
  for (std::size_t i = 0; i < plan.work_loads.size(); ++i) {
    devices_.push_back(make_replica(plan, seed, static_cast<int>(i)));
  }
  layers_.resize(devices_.front().network.layer_count());
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    for (Replica& device : devices_) {
      const auto parameters = device.network.parameters(layer);
      layers_[layer].resize(parameters.size());
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        layers_[layer][p].name = parameters[p]->name;
        layers_[layer][p].copies.push_back(parameters[p]);
      }
    }
  }
}

std::size_t Worker::weight_count() const {
  std::size_t count = 0;
  for (const auto& layer : layers_) {
    for (const Shared& shared : layer) count += shared.copies.front()->value.count();
  }
  return count;
}

nn::Score Worker::compute(const dataset::Images& images, std::span<const std::uint32_t> batch,
                          const std::function<void(std::size_t layer)>& ready) {
  split_and_load(images, batch, plan_.work_loads, devices_);
  nn::Score score;
  for (Replica& device : devices_) {
    if (device.labels.empty()) continue;
    score += device.network.forward(device.labels, nn::Mode::training);
  }
  // The loop goes layer by layer over all devices, and not device by device. So the last layers'
  // gradients travel while the first layers' are computed.
  for (std::size_t layer = layers_.size(); layer-- > 0;) {
    backward(layer);
    if (!layers_[layer].empty()) ready(layer);
  }
  return score;
}

void Worker::backward(std::size_t layer) {
  for (Replica& device : devices_) {
    if (!device.labels.empty()) {
      device.network.backward(layer);
      continue;
    }
    for (const nn::Parameter* parameter : device.network.parameters(layer)) {
      std::ranges::fill(numbers(parameter->gradient), 0.0F);
    }
  }
}

void Worker::average(std::size_t layer, std::size_t samples) {
  for (const Shared& shared : layers_[layer]) {
    for (const nn::Parameter* copy : shared.copies) {
      for (float& each : numbers(copy->gradient)) each /= static_cast<float>(samples);
    }
  }
}

tutti::Optimizer Worker::optimizer() const {
  return {.name = "sgd", .parameters = {{"learning_rate", plan_.lr}, {"momentum", plan_.momentum}}};
}

void Worker::update(std::size_t layer, std::size_t global_batch) {
  const float scale = 1.0F / static_cast<float>(global_batch);
  std::size_t first = 0;
  for (std::size_t i = 0; i < layer; ++i) first += layers_[i].size();
  for (std::size_t p = 0; p < layers_[layer].size(); ++p) {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const nn::Parameter& parameter = *layers_[layer][p].copies[d];
      const auto value = numbers(parameter.value);
      const auto gradient = numbers(parameter.gradient);
      std::vector<float>& velocity = devices_[d].velocity[first + p];
      for (std::size_t i = 0; i < value.size(); ++i) {
        velocity[i] = plan_.momentum * velocity[i] + scale * gradient[i];
        value[i] -= plan_.lr * velocity[i];
      }
    }
  }
}

nn::Score Worker::evaluate(const dataset::Images& images, std::size_t begin, std::size_t end) {
  Replica& device = devices_.front();
  std::vector<std::uint32_t> batch(end - begin);
  std::iota(batch.begin(), batch.end(), static_cast<std::uint32_t>(begin));
  load(images, batch, device);
  return device.network.forward(device.labels, nn::Mode::inference);
}

std::string Worker::weights_sha256() const {
  Sha256 hash;
  for (const auto& layer : layers_) {
    for (const Shared& shared : layer) {
      const tutti::Tensor& first = shared.copies.front()->value;
      for (const nn::Parameter* copy : shared.copies) {
        if (std::memcmp(first.data(), copy->value.data(), first.bytes()) == 0) continue;
        throw tutti::Error(tutti::ErrorCode::internal, "'" + shared.name + "' differs between " +
                                                           tutti::name(first.device()) + " and " +
                                                           tutti::name(copy->value.device()));
      }
      hash.add(first.data(), first.bytes());
    }
  }
  return hash.hex();
}

}  // namespace training
