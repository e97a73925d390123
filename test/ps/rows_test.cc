// row_sparse_pull from servers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "ps/local_job.h"

using namespace tutti;
using Catch::Contains;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

constexpr std::int64_t rows = 6;
constexpr std::int64_t columns = 5;

Tensor table(Floats& values) {
  return {values.data(), {rows, columns}, DType::f32};
}

/// "1.3.": which rows are there; the others must be zeros. "?" for a row that is neither.
std::string rows_in(const Floats& out) {
  std::string text;
  for (std::int64_t row = 0; row < rows; ++row) {
    bool is_there = true;
    bool is_zero = true;
    for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      const float value = out[static_cast<std::size_t>(i)];
      is_there = is_there && value == static_cast<float>(i + 1);
      is_zero = is_zero && value == 0;
    }
    text += is_there ? std::to_string(row) : is_zero ? "." : "?";
  }
  return text;
}

void init_table(KVStore& kv) {
  Floats value(rows * columns);
  std::iota(value.begin(), value.end(), 1.0F);
  kv.init({"w"}, {table(value)});
}

template <typename T>
std::string pulled(KVStore& kv, std::vector<T> ids, const Shape& shape, DType dtype) {
  Floats out(rows * columns, -1);
  kv.row_sparse_pull({"w"}, {{table(out)}}, {Tensor(ids.data(), shape, dtype)});
  return rows_in(out);
}

std::string all_kinds_of_ids(KVStore& kv) {
  init_table(kv);
  std::string text;
  text += pulled<std::int64_t>(kv, {1, 4}, {2}, DType::i64) + " ";
  text += pulled<float>(kv, {5, 0, 5}, {3}, DType::f32) + " ";
  text += pulled<double>(kv, {3, 3, 2, 2}, {2, 2}, DType::f64) + " ";
  text += pulled<std::uint8_t>(kv, {0}, {}, DType::u8) + " ";
  text += pulled<std::int64_t>(kv, {}, {0}, DType::i64);
  return text;
}

constexpr const char* all_kinds = ".1..4. 0....5 ..23.. 0..... ......";

}  // namespace

TEST_CASE("rows come by ids of any type and shape, repeated or none, from any number of servers") {
  for (int servers = 1; servers <= 4; ++servers) {
    LocalJob job({.workers = 2, .servers = servers, .big_count = 10});
    CHECK(job.run(all_kinds_of_ids) == Said(2, all_kinds));
  }
  CHECK(all_kinds_of_ids(*KVStore::create("local")) == all_kinds);
}

TEST_CASE("rows come to every device, of several keys, after the worker's own pushes") {
  LocalJob job({.workers = 2, .servers = 2, .big_count = 10});
  CHECK(job.run([](KVStore& kv) {
    init_table(kv);
    Floats other(rows * columns, 0);
    kv.init({"v"}, {table(other)});
    std::iota(other.begin(), other.end(), 1.0F);
    for (float& one : other) one /= 2;
    kv.push({"v"}, {table(other)});
    Floats a(rows * columns, -1);
    Floats b(rows * columns, -1);
    Floats c(rows * columns, -1);
    std::int64_t first = 2;
    std::int64_t second = 4;
    kv.row_sparse_pull({"w", "v"}, {{table(a), table(b)}, {table(c)}},
                       {{&first, {1}, DType::i64}, {&second, {1}, DType::i64}});
    return rows_in(a) + rows_in(b) + rows_in(c);
  }) == Said(2, "..2.....2.......4."));
}

TEST_CASE("only the rows that are asked for travel") {
  LocalJob job({.workers = 1, .servers = 2, .big_count = 10});
  const auto said = job.run([](KVStore& kv) {
    init_table(kv);
    const auto before = kv.counters().bytes_between_nodes;
    const std::string text = pulled<std::int64_t>(kv, {3}, {1}, DType::i64);
    const auto sent = kv.counters().bytes_between_nodes - before;
    return text + (sent < 400 ? " little" : " " + std::to_string(sent));
  });
  CHECK(said == Said{"...3.. little"});
}

TEST_CASE("a server is asked for the rows alone that it has a part of") {
  LocalJob job({.workers = 1, .servers = 4, .big_count = 10});
  const auto said = job.run([](KVStore& kv) {
    constexpr std::int64_t many = 2000;
    Floats value(many, 1);
    Floats out(many);
    std::vector<std::int64_t> ids(many);
    std::iota(ids.begin(), ids.end(), 0);
    kv.init({"w"}, {tensor(value)});
    const auto before = kv.counters().bytes_between_nodes;
    kv.row_sparse_pull({"w"}, {{tensor(out)}}, {Tensor(ids.data(), {many}, DType::i64)});
    const auto sent = kv.counters().bytes_between_nodes - before;
    return std::string(out == value ? "right" : "wrong") +
           (sent < 8 * many + 2000 ? " little" : " " + std::to_string(sent));
  });
  CHECK(said == Said{"right little"});
}

TEST_CASE("a row of a large value takes a few messages, and the rest becomes zeros") {
  LocalJob job({.workers = 1, .servers = 3, .big_count = 10});
  const auto said = job.run([](KVStore& kv) {
    constexpr std::int64_t many = 200;
    constexpr std::int64_t wide = 16384;  // 64 KiB, half a piece
    Floats value(many * wide, 1);
    Floats out(many * wide, -1);
    kv.init({"w"}, {Tensor(value.data(), {many, wide}, DType::f32)});
    std::string text;
    for (const std::vector<std::int64_t>& ids : {std::vector<std::int64_t>{7}, {}}) {
      const auto before = kv.counters().bytes_between_nodes;
      const auto count = static_cast<std::int64_t>(ids.size());
      std::vector<std::int64_t> asked = ids;
      kv.row_sparse_pull({"w"}, {{Tensor(out.data(), {many, wide}, DType::f32)}},
                         {Tensor(asked.data(), {count}, DType::i64)});
      const auto sent = kv.counters().bytes_between_nodes - before;
      const auto ones = std::ranges::count(out, 1.0F);
      const auto zeros = std::ranges::count(out, 0.0F);
      const bool is_right = ones == count * wide && ones + zeros == many * wide;
      text += (is_right ? "right" : "wrong") + std::string(sent < 1500 ? " little; " : " much; ");
    }
    return text;
  });
  CHECK(said == Said{"right little; right little; "});
}

TEST_CASE("rows come into the tensor of a push that is on its way, which is not changed by it") {
  LocalJob job({.workers = 1, .servers = 2, .big_count = 10});
  const auto said = job.run([](KVStore& kv) {
    constexpr std::int64_t many = 200;
    constexpr std::int64_t wide = 16384;
    Floats value(many * wide, 3);
    Floats whole(many * wide, 0);
    const Tensor tensor(value.data(), {many, wide}, DType::f32);
    kv.init({"w"}, {Tensor(whole.data(), {many, wide}, DType::f32)});
    const Pending pushed = kv.push({"w"}, {{tensor}});
    std::vector<std::int64_t> ids{7};
    kv.row_sparse_pull({"w"}, {{tensor}}, {Tensor(ids.data(), {1}, DType::i64)});
    pushed.wait();
    kv.pull({"w"}, {Tensor(whole.data(), {many, wide}, DType::f32)}).wait();
    return std::to_string(std::ranges::count(value, 3.0F) / wide) + " row, " +
           std::to_string(std::ranges::count(whole, 3.0F) / wide) + " stored";
  });
  CHECK(said == Said{"1 row, 200 stored"});
}

TEST_CASE("ids that name no row, unknown keys and scalars are refused") {
  LocalJob job({.workers = 1, .servers = 2, .big_count = 10});
  const auto attempts = [](KVStore& kv) {
    init_table(kv);
    std::string text;
    const auto attempt = [&](const auto& call) {
      try {
        call();
        text += "no error; ";
      } catch (const Error& error) {
        text += std::string(error.what()) + "; ";
      }
    };
    for (const double id : {6.0, -1.0, 1.5, std::nan("")}) {
      attempt([&] { pulled<double>(kv, {id}, {1}, DType::f64); });
    }
    std::int64_t zero = 0;
    const Tensor id(&zero, {1}, DType::i64);
    Floats out(rows * columns);
    attempt([&] { kv.row_sparse_pull({"x"}, {{table(out)}}, {id}); });
    attempt([&] { kv.row_sparse_pull({"w"}, {{tensor(out)}}, {id}); });
    attempt([&] { kv.row_sparse_pull({"w"}, {{Tensor(out.data(), {}, DType::f32)}}, {id}); });
    attempt([&] { kv.row_sparse_pull({"w"}, {{table(out)}}, {}); });
    return text;
  };
  for (const std::string& text : {job.run(attempts)[0], attempts(*KVStore::create("local"))}) {
    CHECK_THAT(text, Contains("row_sparse_pull of key 'w': 6 is no row of f32 (6, 5); its 6 "
                              "rows count from 0; ") &&
                         Contains("-1 is no row") && Contains("1.5 is no row") &&
                         Contains("nan is no row") && Contains("'x': it was never initialised") &&
                         Contains("the tensor is f32 (30), but the") &&
                         Contains("a scalar has no rows") && !Contains("no error"));
  }
}
