#include <array>

#include "fuzz/decoders.h"
#include "optimizer/saved.h"
#include "optimizer/updater.h"

namespace tutti::fuzz {
namespace {

std::span<const std::uint8_t> words_of(Bytes bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

bool read(Bytes bytes) {
  const auto saved = accepted([&] { return optimizer::read_saved(words_of(bytes)); },
                              {ErrorCode::invalid_argument});
  if (!saved) return false;
  const auto again = optimizer::write_saved(*saved);
  if (optimizer::write_saved(optimizer::read_saved(again)) != again) {
    fail("saved again, it is something else");
  }
  return true;
}

/// Updates a value with the loaded state.
bool update(Bytes bytes) {
  std::array<float, 1> value{1};
  std::array<float, 1> gradient{1};
  const Tensor weight(value.data(), {1}, DType::f32);
  return accepted(
             [&] {
               auto updater = optimizer::Updater::loaded(words_of(bytes));
               updater.check("w", weight);
               updater.update("w", Tensor(gradient.data(), {1}, DType::f32), weight);
               return true;
             },
             {ErrorCode::invalid_argument})
      .has_value();
}

constexpr Decoder all[] = {{read}, {update}};

std::vector<std::byte> written(const optimizer::Saved& saved) {
  const auto words = optimizer::write_saved(saved);
  const Bytes bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  const std::vector<std::byte> one(4);
  const optimizer::State state{DType::f32, 3, one, {one, one}};
  const std::map<Key, optimizer::State> states{{"w", state}, {7, {DType::f64, 1, {}, {}}}};
  const Optimizer adam{
      "adam", {{"beta1", 0.5}, {"wd", 0.1}}, {{"w", {.learning_rate = 2, .wd = 0}}, {7, {}}}};
  const auto states_alone = written({.rule = "adam", .optimizer = {}, .states = states});
  const auto all_of_it = written({.rule = "adam", .optimizer = adam, .states = states});
  return {{0, states_alone}, {0, all_of_it}, {1, all_of_it}};
}

}  // namespace tutti::fuzz
