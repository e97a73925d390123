// How evenly networks lie on servers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "benchmarks/training_step/model.h"
#include "ps/scheduler/directory.h"
#include "tutti/shard.h"

using namespace tutti;
using namespace tutti::ps;

namespace {

std::vector<Locate::Value> values_of(std::string_view model) {
  std::vector<Locate::Value> values;
  for (const bench::LayerShape& layer : bench::make_model(model, 1)) {
    for (const std::size_t count : layer.tensors) {
      values.push_back({static_cast<std::int64_t>(values.size()), count, DType::f32});
    }
  }
  return values;
}

/// How far the server that differs most is from an equal share.
double unevenness(const std::vector<Locate::Value>& values, const Located& located, int servers) {
  std::vector<double> bytes(static_cast<std::size_t>(servers));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Places& places = located.placements[i].places;
    for (std::uint32_t piece = 0; piece < places.pieces; ++piece) {
      const Shard part =
          shard(values[i].count, static_cast<int>(piece), static_cast<int>(places.pieces));
      bytes[static_cast<std::size_t>(places.server_of(piece))] +=
          4.0 * static_cast<double>(part.count());
    }
  }
  const double even = std::accumulate(bytes.begin(), bytes.end(), 0.0) / servers;
  const auto [least, most] = std::ranges::minmax(bytes);
  return std::max(most - even, even - least) / even;
}

}  // namespace

TEST_CASE("networks take up within 5 % of an equal share on every server") {
  for (const std::string_view model : bench::model_names()) {
    const std::vector<Locate::Value> values = values_of(model);
    for (const int servers : {1, 2, 4, 8}) {
      INFO(model << " on " << servers << " servers");
      Directory together(servers, 1'000'000);
      CHECK(unevenness(values, together.locate({values}), servers) < 0.05);
      // A program that makes its parameters known one by one leaves less of a choice.
      Directory alone(servers, 1'000'000);
      for (const Locate::Value& value : values) alone.locate({{value}});
      CHECK(unevenness(values, alone.locate({values}), servers) < 0.1);
    }
  }
}
