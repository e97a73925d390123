#include <array>
#include <catch2/catch.hpp>
#include <memory>

#include "../errors.h"
#include "../folder.h"
#include "tutti/kvstore.h"

using namespace tutti;
using Catch::Matchers::Contains;

namespace {

using Pair = std::array<float, 2>;

Tensor tensor(Pair& memory) {
  return {memory.data(), {2}, DType::f32};
}

std::unique_ptr<KVStore> store_with(Pair first, const Optimizer& optimizer) {
  auto store = KVStore::create("local", Options{});
  store->init({"w"}, {tensor(first)});
  store->set_optimizer(optimizer);
  return store;
}

Pair pulled(KVStore& store) {
  Pair value{};
  store.pull({"w"}, {tensor(value)}).wait();
  return value;
}

void push(KVStore& store, Pair gradient) {
  store.push({"w"}, {tensor(gradient)}).wait();
}

const Optimizer sgd{.name = "sgd", .parameters = {{"learning_rate", 0.5}, {"momentum", 0.5}}};

}  // namespace

TEST_CASE("with an optimizer a push updates the value by the sum over devices and repeated keys") {
  const auto store = store_with({1, 2}, {.name = "sgd", .parameters = {{"learning_rate", 1}}});
  Pair a{1, 1};
  Pair b{10, 0};
  store->push({"w"}, {Values{tensor(a), tensor(b)}}).wait();
  CHECK(pulled(*store) == Pair{-10, 1});
  store->push({"w", "w"}, {tensor(a), tensor(b)}).wait();
  CHECK(pulled(*store) == Pair{-21, 0});
}

TEST_CASE("with an optimizer a pushpull gives the updated value, in place, too") {
  const auto store = store_with({1, 2}, {.name = "sgd", .parameters = {{"learning_rate", 1}}});
  Pair gradient{1, 1};
  store->pushpull("w", tensor(gradient), tensor(gradient)).wait();
  CHECK(gradient == Pair{0, 1});
  CHECK(pulled(*store) == Pair{0, 1});
}

TEST_CASE("an optimizer that is set again with other parameters keeps its states") {
  const auto store = store_with({1, 2}, sgd);
  push(*store, {1, 1});
  store->set_optimizer({.name = "sgd", .parameters = {{"learning_rate", 1}, {"momentum", 0.5}}});
  push(*store, {1, 1});
  CHECK(pulled(*store) == Pair{-0.75, 0.25});
}

TEST_CASE("with an optimizer a key must be initialised, and keeps its shape and floats") {
  const auto store = store_with({1, 2}, sgd);
  Pair gradient{};
  std::array<float, 3> longer{};
  const Tensor other(longer.data(), {3}, DType::f32);
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] { store->pushpull("v", tensor(gradient), tensor(gradient)); }),
             Contains("it was never initialised"));
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { store->pushpull("w", other, other); }),
             Contains("the key was initialised as"));
  std::array<std::int32_t, 2> integers{};
  const Tensor counts(integers.data(), {2}, DType::i32);
  store->init({"n"}, {counts});
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { store->push({"n"}, {counts}); }),
             Contains("updates floats"));
}

TEST_CASE("a refused push of several keys updates none of them") {
  const auto store = store_with({1, 2}, sgd);
  std::array<std::int32_t, 2> integers{};
  const Tensor counts(integers.data(), {2}, DType::i32);
  store->init({"n"}, {counts});
  Pair gradient{1, 1};
  CHECK_THROWS(store->push({"w", "n"}, {tensor(gradient), counts}));
  CHECK(pulled(*store) == Pair{1, 2});
}

TEST_CASE("optimizer states go through a file, the optimizer with them if asked for") {
  const Folder folder;
  const std::string path = folder.path() + "/states";
  const auto store = store_with({0, 0}, sgd);
  push(*store, {2, 4});
  store->save_optimizer_states(path, true);
  push(*store, {2, 4});

  const auto other = KVStore::create("device", Options{});
  Pair value{-1, -2};
  other->init({"w"}, {tensor(value)});
  other->load_optimizer_states(path);
  push(*other, {2, 4});
  CHECK(pulled(*other) == pulled(*store));
}

TEST_CASE("pushes go on from the value of a broadcast, whatever the value and its shape were") {
  const auto store = KVStore::create("local", Options{});
  std::array<std::uint16_t, 2> one{0x3c00, 0x3c00};  // 1
  std::array<std::uint16_t, 2> two{0x4000, 0x4000};
  std::array<std::uint16_t, 2> value{};
  const auto halves = [](auto& memory) { return Tensor(memory.data(), {2}, DType::f16); };
  store->init({"w"}, {halves(one)});
  store->set_optimizer({"sgd", {{"learning_rate", 1}, {"multi_precision", 1}}});
  store->push({"w"}, {halves(one)}).wait();
  store->broadcast("w", halves(two), 0).wait();
  store->push({"w"}, {halves(one)}).wait();
  store->pull({"w"}, {halves(value)}).wait();
  CHECK(value == one);

  store->set_optimizer(sgd);
  Pair wide{1, 2};
  store->broadcast("w", tensor(wide), 0).wait();
  push(*store, {2, 2});
  CHECK(pulled(*store) == Pair{0, 1});

  std::array<float, 3> longer{1, 2, 3};
  std::array<float, 3> ones{1, 1, 1};
  const Tensor all(longer.data(), {3}, DType::f32);
  store->broadcast("w", all, 0).wait();
  store->push({"w"}, {Tensor(ones.data(), {3}, DType::f32)}).wait();
  store->pull({"w"}, {all}).wait();
  CHECK(longer == std::array<float, 3>{0.5, 1.5, 2.5});
}

TEST_CASE("states cannot be saved without an optimizer, nor loaded from bytes that are none") {
  const Folder folder;
  const auto store = KVStore::create("local", Options{});
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] { store->save_optimizer_states(folder.path() + "/states"); }),
             Contains("call set_optimizer first"));
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] { store->load_optimizer_states(folder.path() + "/missing"); }),
             Contains("missing: No such file"));
}

TEST_CASE("names and keys of an optimizer that no message takes are refused") {
  const std::string longest(Key::max_bytes, 'x');
  const std::string longer = longest + 'x';
  const auto store = KVStore::create("local", Options{});
  const auto refusal_of = [&](const Optimizer& optimizer) {
    return text_of(ErrorCode::invalid_argument, [&] { store->set_optimizer(optimizer); });
  };
  CHECK_THAT(refusal_of({longest, {}, {}}), Contains("not known (known:"));
  CHECK_THAT(refusal_of({longer, {}, {}}),
             Contains("optimizer 'xx") && Contains("such a name has at most 1024 bytes"));
  CHECK_THAT(refusal_of({"sgd", {{longer, 1}}, {}}),
             Contains("such a name has at most 1024 bytes"));
  CHECK_THAT(refusal_of({"sgd", {}, {{longer, {}}}}),
             Contains("key 'xx") && Contains("such a name has at most 1024 bytes"));
  store->set_optimizer({"sgd", {}, {{longest, {}}}});
}
