#pragma once
#include <catch2/catch.hpp>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "ps/server/table.h"

namespace tutti::ps {

using Floats = std::vector<float>;

struct Heard {
  int worker = 0;
  std::uint64_t sequence = 0;
  std::optional<Failure> failure;
  Floats values;
  std::vector<std::byte> bytes{};  ///< the same, as it came
};

/// A server, the requests of workers, and the answers that they get.
class TableJob {
 public:
  explicit TableJob(int workers = 2, bool asynchronous = false, int staleness = unbounded)
      : table_({.workers = workers,
                .asynchronous = asynchronous,
                .staleness = staleness,
                .send = [this](int worker, const Answer& answer) { hear(worker, answer); }}),
        sequences_(static_cast<std::size_t>(workers)) {}

  std::uint64_t say(int worker, Kind kind, const Floats& values, Contribution like = {}) {
    like.sequence = next(worker);
    like.piece = {"w", 0, 1};
    like.kind = kind;
    like.shape = {static_cast<std::int64_t>(values.size())};
    like.data = std::as_bytes(std::span(values));
    if (!brings_data(like, worker)) like.data = {};
    table_.receive(worker, like);
    return like.sequence;
  }
  std::uint64_t pull(int worker, std::int64_t count) {
    const std::uint64_t sequence = next(worker);
    table_.receive(worker, Pull{sequence, {"w", 0, 1}, DType::f32, {count}});
    return sequence;
  }
  std::uint64_t set(int worker, const Optimizer& optimizer) {
    const std::uint64_t sequence = next(worker);
    table_.receive(worker, SetOptimizer{sequence, optimizer});
    return sequence;
  }
  void init(const Floats& values) {
    for (int worker = 0; worker < size(); ++worker) say(worker, Kind::init, values);
    heard.clear();
  }
  Floats stored(std::int64_t count, int worker = 0) {
    heard.clear();
    pull(worker, count);
    REQUIRE(heard.size() == 1);
    REQUIRE_FALSE(heard[0].failure);
    return heard[0].values;
  }
  int size() const { return static_cast<int>(sequences_.size()); }
  std::uint64_t next(int worker) { return ++sequences_[static_cast<std::size_t>(worker)]; }
  Table& table() { return table_; }
  /// Continues the numbers of the other job, because the workers are the same.
  void continue_numbers(const TableJob& other) { sequences_ = other.sequences_; }

  /// Whether all workers have heard one thing, the same error.
  std::string common_failure(ErrorCode code) const {
    REQUIRE(heard.size() == sequences_.size());
    for (const Heard& one : heard) {
      REQUIRE(one.failure);
      CHECK(one.failure == heard[0].failure);
      CHECK(one.failure->code == code);
    }
    return heard[0].failure->text;
  }

  /// The text with which the server refused a worker.
  std::string refusal(int worker) const {
    for (const Heard& one : heard) {
      if (one.worker == worker && one.sequence == 0 && one.failure) return one.failure->text;
    }
    FAIL("worker " << worker << " was not refused");
    return {};
  }

  std::vector<Heard> heard;

 private:
  void hear(int worker, const Answer& answer) {
    Heard one{worker, answer.sequence, answer.failure, Floats(answer.data.size() / sizeof(float))};
    one.bytes.assign(answer.data.begin(), answer.data.end());
    if (!one.values.empty()) {
      std::memcpy(one.values.data(), one.bytes.data(), one.values.size() * sizeof(float));
    }
    heard.push_back(std::move(one));
  }

  Table table_;
  std::vector<std::uint64_t> sequences_;
};

}  // namespace tutti::ps
