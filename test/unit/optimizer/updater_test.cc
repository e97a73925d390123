#include "optimizer/updater.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "../errors.h"
#include "reduce/reduce.h"

using namespace tutti;
using namespace tutti::optimizer;
using Catch::Matchers::Contains;

namespace {

using Pair = std::array<float, 2>;

Tensor tensor(Pair& memory) {
  return {memory.data(), {2}, DType::f32};
}

/// Two floats, in a 16-bit type.
class Narrow {
 public:
  Narrow(DType dtype, Pair values) : dtype_(dtype) {
    convert(DType::f32, values.data(), dtype, bits_.data());
  }
  Tensor tensor() { return {bits_.data(), {2}, dtype_}; }
  Pair values() const {
    Pair wide{};
    convert(dtype_, bits_.data(), DType::f32, wide.data());
    return wide;
  }

 private:
  static void convert(DType in, const void* from, DType out, void* to) {
    reduce::reduce({.in = in, .out = out}, {&from, 1}, to, 2);
  }
  DType dtype_;
  std::array<std::uint16_t, 2> bits_{};
};

void update(Updater& updater, const Key& key, Pair gradient, Pair& weight) {
  updater.update(key, tensor(gradient), tensor(weight));
}

const Optimizer sgd{.name = "sgd", .parameters = {{"learning_rate", 0.5}, {"momentum", 0.5}}};

}  // namespace

TEST_CASE("every key has a state of its own") {
  Updater updater(sgd);
  Pair a{0, 0};
  Pair b{0, 0};
  update(updater, "a", {2, 4}, a);
  update(updater, "a", {2, 4}, a);
  update(updater, "b", {2, 4}, b);
  CHECK(a == Pair{-2.5, -5});
  CHECK(b == Pair{-1, -2});
}

TEST_CASE("a key's factors multiply its learning rate and its decay") {
  Updater updater({.name = "sgd",
                   .parameters = {{"learning_rate", 1}, {"wd", 0.5}},
                   .factors = {{"bias", {.learning_rate = 2, .wd = 0}}}});
  Pair weight{1, 1};
  Pair bias{1, 1};
  update(updater, "weight", {0, 1}, weight);
  update(updater, "bias", {0, 1}, bias);
  CHECK(weight == Pair{0.5, -0.5});
  CHECK(bias == Pair{1, -1});
}

TEST_CASE("new parameters for the same rule keep what it knows of the keys") {
  Updater updater(sgd);
  Pair value{0, 0};
  update(updater, 0, {2, 2}, value);
  updater.set({.name = "sgd", .parameters = {{"learning_rate", 0}, {"momentum", 0.5}}});
  update(updater, 0, {2, 2}, value);
  CHECK(value == Pair{-1.5, -1.5});
}

TEST_CASE("another rule begins anew, and momentum that comes later with nothing") {
  Updater updater(sgd);
  Pair value{0, 0};
  update(updater, 0, {2, 2}, value);
  updater.set({.name = "nag", .parameters = {{"learning_rate", 0}, {"momentum", 0.5}}});
  update(updater, 0, {2, 2}, value);
  CHECK(value == Pair{-1, -1});
  updater.set({.name = "sgd", .parameters = {{"learning_rate", 1}}});
  update(updater, 0, {1, 1}, value);
  updater.set({.name = "sgd", .parameters = {{"learning_rate", 1}, {"momentum", 0.5}}});
  update(updater, 0, {1, 1}, value);
  CHECK(value == Pair{-3, -3});
}

TEST_CASE("a refused optimizer changes nothing") {
  Updater updater(sgd);
  CHECK_THROWS(updater.set({.name = "sgd", .parameters = {{"momentum", 2}}}));
  CHECK(updater.optimizer() == sgd);
}

TEST_CASE("small updates of 16-bit values add up in a master copy, and are lost without it") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const bool master : {false, true}) {
      CAPTURE(name(dtype), master);
      Updater updater({.name = "sgd",
                       .parameters = {{"learning_rate", 1}, {"multi_precision", master ? 1 : 0}}});
      Narrow value(dtype, {1, -1});
      Narrow gradient(dtype, {-0x1p-12F, 0x1p-12F});
      for (int step = 0; step < 4096; ++step)
        updater.update("w", gradient.tensor(), value.tensor());
      CHECK(value.values() == (master ? Pair{2, -2} : Pair{1, -1}));
    }
  }
}

TEST_CASE("updates go on from a value put in place of another, though it has a master copy") {
  Updater updater({.name = "sgd", .parameters = {{"learning_rate", 1}, {"multi_precision", 1}}});
  Narrow value(DType::f16, {1, -1});
  Narrow gradient(DType::f16, {1, 1});
  updater.update("w", gradient.tensor(), value.tensor());
  Narrow other(DType::f16, {10, 20});
  updater.take_value("w", other.tensor());
  updater.update("w", gradient.tensor(), other.tensor());
  CHECK(other.values() == Pair{9, 19});
}

TEST_CASE("a value of another size or dtype begins with a state of its own") {
  Updater updater({.name = "sgd", .parameters = {{"learning_rate", 1}, {"momentum", 0.5}}});
  Pair value{1, 2};
  update(updater, "w", {1, 1}, value);
  std::array<double, 3> larger{3, 4, 5};
  const Tensor weight(larger.data(), {3}, DType::f64);
  updater.take_value("w", weight);
  updater.check("w", weight);
  std::array<double, 3> gradient{1, 1, 1};
  updater.update("w", {gradient.data(), {3}, DType::f64}, weight);
  CHECK(larger == std::array<double, 3>{2, 3, 4});
  // One that fits goes on.
  updater.take_value("w", weight);
  updater.update("w", {gradient.data(), {3}, DType::f64}, weight);
  CHECK(larger == std::array<double, 3>{0.5, 1.5, 2.5});
}

TEST_CASE("values that are no floats are refused by name") {
  const Updater updater(sgd);
  std::array<std::int32_t, 2> memory{};
  const std::string text = text_of(ErrorCode::invalid_argument, [&] {
    updater.check("count", {memory.data(), {2}, DType::i32});
  });
  CHECK_THAT(text, Contains("key 'count': optimizer 'sgd' updates floats, and the value is i32"));
}

TEST_CASE("an updater that loads another's states goes on as the other would") {
  for (const char* rule : {"sgd", "nag", "adam", "adamw", "adagrad", "rmsprop", "lamb"}) {
    CAPTURE(rule);
    Optimizer optimizer{.name = rule, .parameters = {{"learning_rate", 0.1}}};
    if (std::string_view(rule) == "sgd") optimizer.parameters["momentum"] = 0.9;
    Updater one(optimizer);
    Pair value{1, 2};
    for (int i = 0; i < 3; ++i) update(one, "w", {0.5F, -1}, value);
    Updater other(optimizer);
    other.load(one.save(false));
    Pair same = value;
    update(one, "w", {0.25F, 1}, value);
    update(other, "w", {0.25F, 1}, same);
    CHECK(same == value);
  }
}

TEST_CASE("states of another size are refused at their key's next update") {
  Updater one(sgd);
  Pair value{1, 2};
  update(one, "w", {1, 1}, value);
  Updater other(sgd);
  other.load(one.save(false));
  std::array<float, 3> larger{};
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] {
                       other.check("w", {larger.data(), {3}, DType::f32});
                     }),
             Contains("key 'w': the optimizer's state is for 2 elements of f32, and the value is "
                      "f32 (3)"));
  other.check("w", tensor(value));
}
