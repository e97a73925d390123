#pragma once
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

/// The code that the store tests share. Every rank runs the same cases in the same order. Each case
/// makes a store of its own. Use CHECK rather than REQUIRE, because a rank that left early would
/// keep the others waiting.
namespace store_test {

inline std::unique_ptr<tutti::KVStore> make_store(
    const tutti::Options& options = tutti::Options::from_env()) {
  return tutti::KVStore::create("dist_sync_mpi", options);
}

/// STORE_TEST_SEED or a fresh one, the same on all ranks; printed by rank 0.
inline std::uint64_t agreed_seed() {
  const auto store = make_store();
  std::int64_t seed = 0;
  if (store->rank() == 0) {
    const char* const given = std::getenv("STORE_TEST_SEED");
    seed = given != nullptr ? std::atoll(given) : static_cast<std::int64_t>(std::random_device{}());
    WARN("seed " << seed);
  }
  store->broadcast("seed", tutti::Tensor(&seed, {1}, tutti::DType::i64), 0).wait();
  return static_cast<std::uint64_t>(seed);
}

/// Stores one after the other, as many as STORE_TEST_STORES says or else `usually`, with what
/// `options(shared)` gives. Then `body(store, shared, own)`; all ranks draw the same from `shared`,
/// and each its own from `own`.
template <typename DrawOptions, typename Body>
void try_stores(int usually, const DrawOptions& options, const Body& body) {
  const char* const given = std::getenv("STORE_TEST_STORES");
  const int stores = given != nullptr ? std::atoi(given) : usually;
  const std::uint64_t seed = agreed_seed();
  std::mt19937_64 shared(seed);
  for (int i = 0; i < stores; ++i) {
    INFO("store " << i);
    const auto store = make_store(options(shared));
    std::mt19937_64 own(seed * 31 + static_cast<std::uint64_t>(store->rank() + 100 * i));
    body(*store, shared, own);
  }
}

/// A value that differs by rank, key and round, small enough that sums are exact in f32.
inline float value_of(int rank, std::size_t key, int round, std::size_t element) {
  const auto mixed = static_cast<std::uint64_t>(rank) * 7919 + key * 104729 +
                     static_cast<std::uint64_t>(round) * 1299709 + element * 15485863;
  return static_cast<float>(mixed % 1000);
}

inline float expected_sum(int ranks, std::size_t key, int round, std::size_t element) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_of(rank, key, round, element);
  return sum;
}

/// The code of the error that `call` ends with; fails the test when there is none.
template <typename Call>
tutti::Error error_of(const Call& call) {
  try {
    call();
  } catch (const tutti::Error& error) {
    return error;
  }
  FAIL_CHECK("no error came");
  return {tutti::ErrorCode::internal, "none"};
}

/// The store still works, on all ranks.
inline void check_alive(tutti::KVStore& store) {
  float value = 1;
  const tutti::Tensor tensor(&value, {}, tutti::DType::f32);
  store.pushpull("alive", tensor, tensor).wait();
  CHECK(value == static_cast<float>(store.num_workers()));
}

}  // namespace store_test
