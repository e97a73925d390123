#include "optimizer/saved.h"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "../errors.h"
#include "optimizer/updater.h"

using namespace tutti;
using namespace tutti::optimizer;
using Catch::Matchers::Contains;

namespace {

State state(std::size_t bytes) {
  return {.dtype = DType::f64,
          .updates = 7,
          .master = {},
          .slots = {std::vector<std::byte>(bytes, std::byte{5})}};
}

Saved example() {
  return {.rule = "adam",
          .optimizer = Optimizer{.name = "adam",
                                 .parameters = {{"beta1", 0.8}},
                                 .factors = {{"bias", {.learning_rate = 2, .wd = 0}}}},
          .states = {{"w", state(16)}, {"bias", state(8)}}};
}

std::vector<std::uint8_t> repeated(const std::vector<std::uint8_t>& part) {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 1 << 20; ++i) bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

std::string refusal_of(const std::vector<std::uint8_t>& bytes) {
  return text_of(ErrorCode::invalid_argument, [&] { read_saved(bytes); });
}

}  // namespace

TEST_CASE("saved states are read again as they were") {
  const Saved read = read_saved(write_saved(example()));
  CHECK(read.rule == "adam");
  CHECK(read.optimizer == example().optimizer);
  REQUIRE(read.states.size() == 2);
  CHECK(read.states.at("w").dtype == DType::f64);
  CHECK(read.states.at("w").updates == 7);
  CHECK(read.states.at("w").slots == state(16).slots);
}

TEST_CASE("an updater takes the optimizer from saved states, where it is there") {
  CHECK(Updater::loaded(write_saved(example())).optimizer() == example().optimizer);
  Saved without = example();
  without.optimizer.reset();
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { Updater::loaded(write_saved(without)); }),
             Contains("without the optimizer itself"));
}

TEST_CASE("states of another rule are refused, and nothing changes") {
  Saved without = example();
  without.optimizer.reset();
  Updater updater({.name = "sgd"});
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { updater.load(write_saved(without)); }),
             Contains("states of optimizer 'adam', but the store's optimizer is 'sgd'"));
  CHECK(updater.optimizer().name == "sgd");
}

TEST_CASE("bytes that are something else are refused, whatever is wrong with them") {
  const std::vector<std::uint8_t> good = write_saved(example());
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK_THROWS_AS(read_saved({good.data(), size}), Error);
  }
  using nlohmann::json;
  const json all = json::from_cbor(good);
  const auto refused = [](const json& bad) {
    return text_of(ErrorCode::invalid_argument, [&] { read_saved(json::to_cbor(bad)); });
  };
  CHECK_THAT(refused(5), Contains("not the states of an optimizer"));
  json bad = all;
  bad["version"] = 2;
  CHECK_THAT(refused(bad), Contains("version 2, and this library reads version 1"));
  bad = all;
  bad["states"][0]["slots"].push_back(json::binary({1, 2, 3}));
  CHECK_THAT(refused(bad), Contains("arrays differ in size"));
  bad = all;
  bad["states"][0]["updates"] = "many";
  CHECK_THAT(refused(bad), Contains("not the states of an optimizer"));
  bad["states"][0]["updates"] = 1e300;
  CHECK_THAT(refused(bad), Contains("not the states of an optimizer"));
  bad["states"][0]["updates"] = std::numeric_limits<std::int64_t>::max();
  CHECK_THAT(refused(bad), Contains("updates, which is no possible number"));
  bad = all;
  bad["states"][0]["key"] = 1.5;
  CHECK_THAT(refused(bad), Contains("not the states of an optimizer"));
}

TEST_CASE("bytes that are nested without end are refused, as lists and as objects") {
  for (const std::vector<std::uint8_t>& opening : {std::vector<std::uint8_t>{0x81}, {0xa1, 0x60}}) {
    CHECK_THAT(refusal_of(repeated(opening)), Contains("they are nested more than 8 deep"));
  }
}

TEST_CASE("parts that do not say how long they are are refused, also one within another") {
  for (const std::vector<std::uint8_t>& opening :
       {std::vector<std::uint8_t>{0x5f}, {0x7f}, {0x9f}, {0xbf, 0x60}}) {
    CHECK_THAT(refusal_of(repeated(opening)), Contains("does not say how long it is"));
  }
}

TEST_CASE("arrays may have any bytes, also those that begin parts of unknown length") {
  for (const unsigned byte : {0x5fU, 0x7fU, 0x9fU, 0xbfU, 0xffU, 0x81U}) {
    Saved saved = example();
    saved.states.at("w").slots = {std::vector<std::byte>(1 << 17, std::byte(byte))};
    CHECK(read_saved(write_saved(saved)).states.at("w").slots == saved.states.at("w").slots);
  }
}

TEST_CASE("parts that are longer than all there is are refused") {
  for (const int kind : {0x5b, 0x7b, 0x9b, 0xbb}) {
    for (const int length : {0x01, 0x7f, 0x80, 0xff}) {
      std::vector<std::uint8_t> bytes(9, static_cast<std::uint8_t>(length));
      bytes[0] = static_cast<std::uint8_t>(kind);
      CHECK_THAT(refusal_of(bytes), Contains("they are cut short"));
    }
  }
}

TEST_CASE("states with a name or key that no message takes are refused") {
  const std::string longer(Key::max_bytes + 1, 'x');
  const auto refused = [](const Saved& saved) {
    CHECK_THAT(refusal_of(write_saved(saved)), Contains("such a name has at most 1024 bytes"));
  };
  Saved saved = example();
  saved.rule = longer;
  refused(saved);
  saved = example();
  saved.optimizer->name = longer;
  refused(saved);
  saved = example();
  saved.optimizer->factors[longer] = {};
  refused(saved);
  saved = example();
  saved.states[longer] = state(8);
  refused(saved);
}
