// Tensors without elements, and tensors at any address.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "ps/local_job.h"
#include "unit/folder.h"

using namespace tutti;
using Said = std::vector<std::string>;

namespace {

Tensor nothing(const Shape& shape) {
  return {nullptr, shape, DType::f32};
}

std::string every_call(KVStore& kv, const std::string& key, const Shape& shape) {
  const Tensor none = nothing(shape);
  std::vector<float> value{1};
  kv.broadcast(key + " broadcast", none, 0).wait();
  kv.init({key, key + " beside"}, {none, tensor(value)});
  kv.push({key, key + " beside"}, {none, tensor(value)}).wait();
  kv.pushpull(key, none, none).wait();
  kv.pushpull(key, {none, none}, {none, none}).wait();
  kv.pull({key, key + " beside"}, {none, tensor(value)}).wait();
  if (shape.dims().size() == 2) {
    std::vector<std::int64_t> ids{shape.dims()[0] - 1};
    const std::int64_t rows = shape.dims()[0] > 0 ? 1 : 0;
    kv.row_sparse_pull({key}, {none}, {Tensor(ids.data(), {rows}, DType::i64)});
  }
  return fmt::format("{} ", value[0]);
}

std::string every_shape(KVStore& kv) {
  std::string said;
  for (const auto& [key, shape] :
       {std::pair<std::string, Shape>{"a", {0}}, std::pair<std::string, Shape>{"b", {0, 3}},
        std::pair<std::string, Shape>{"c", {3, 0}}}) {
    said += every_call(kv, key, shape);
  }
  return said;
}

/// Three numbers, the first of them one byte behind an aligned address.
class Unaligned {
 public:
  explicit Unaligned(float value) {
    const float values[] = {value, value, value};
    std::memcpy(bytes_ + 1, values, sizeof values);
  }
  Tensor tensor(const Shape& shape = {3}) { return {bytes_ + 1, shape, DType::f32}; }
  std::string text() const {
    std::vector<float> values(3);
    std::memcpy(values.data(), bytes_ + 1, sizeof(float) * values.size());
    return text_of(values);
  }

 private:
  alignas(float) std::byte bytes_[1 + 3 * sizeof(float)]{};
};

}  // namespace

TEST_CASE("tensors without elements pass through every call") {
  LocalJob job({.workers = 2, .servers = 2, .big_count = 1});
  CHECK(job.run(every_shape) == Said(2, "2 2 2 "));
}

TEST_CASE("an optimizer updates a value without elements, and keeps a state of it") {
  const Folder folder;
  for (const char* name : {"sgd", "nag", "adam", "adagrad", "rmsprop", "lamb"}) {
    INFO(name);
    LocalJob job({.workers = 2, .servers = 2, .big_count = 1});
    CHECK(job.run([&, name = std::string(name)](KVStore& kv) {
      kv.set_optimizer({name, {{"learning_rate", 0}}});
      const std::string said = every_shape(kv);
      const std::string file = fmt::format("{}/{}-{}", folder.path(), name, kv.rank());
      kv.save_optimizer_states(file, /*dump_optimizer=*/true);
      kv.load_optimizer_states(file);
      return said + every_call(kv, "d", {0});
    }) == Said(2, "1 1 1 1 "));
  }
}

TEST_CASE("a value without elements is not compressed, and goes where others are") {
  for (const char* kind : {"fp16", "bf16", "2bit", "1bit"}) {
    INFO(kind);
    LocalJob job({.workers = 2, .servers = 2, .big_count = 1});
    CHECK(job.run([&](KVStore& kv) {
      kv.set_gradient_compression(kind, 1);
      return every_shape(kv).empty() ? "" : "done";
    }) == Said(2, "done"));
  }
}

TEST_CASE("tensors may be at any address, compressed or not") {
  for (const auto& [kind, expected] : {std::pair<const char*, const char*>{"none", "-2 -2 -2"},
                                       {"fp16", "-2 -2 -2"},
                                       {"bf16", "-2 -2 -2"},
                                       {"2bit", "-1 -1 -1"},
                                       {"1bit", "-2 -2 -2"}}) {
    INFO(kind);
    LocalJob job({.workers = 2, .servers = 2, .big_count = 2});
    CHECK(job.run([&, kind = kind](KVStore& kv) {
      kv.set_gradient_compression(kind, 0.5);
      Unaligned value(0);
      Unaligned rows(7);
      Unaligned gradient(1);
      kv.init({"w"}, {value.tensor()});
      kv.init({"rows"}, {rows.tensor({3, 1})});
      kv.set_optimizer({"sgd", {{"learning_rate", 1}}});
      kv.push({"w"}, {gradient.tensor()}).wait();
      kv.pull({"w"}, {value.tensor()}).wait();
      std::int64_t ids[] = {2};
      kv.row_sparse_pull({"rows"}, {rows.tensor({3, 1})}, {Tensor(ids, {1}, DType::i64)});
      return value.text() + ", " + rows.text();
    }) == Said(2, fmt::format("{}, 0 0 7", expected)));
  }
}
