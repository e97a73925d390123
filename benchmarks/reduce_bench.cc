// Memory traffic of the element kernels: bytes read plus written a second. `of_memory` is that rate
// as a part of the best rate at which one core copies buffers of this size.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/registered.h"
#include "reduce/reduce.h"

namespace {

using tutti::DType;
using tutti::ReduceOp;
using tutti::reduce::Kernel;

constexpr std::size_t small_bytes = std::size_t{16} << 10;
constexpr std::size_t large_bytes = std::size_t{64} << 20;

/// Buffers of zeros whose pages are allocated. Each starts at another place within a page, as real
/// ones do, so that they do not use the same sets of a cache.
class Buffers {
 public:
  Buffers(std::size_t count, std::size_t bytes) : memory_(count * (bytes + skew)) {
    for (std::size_t i = 0; i < count; ++i) {
      addresses_.push_back(memory_.data() + i * (bytes + skew));
    }
  }
  void* at(std::size_t i) { return addresses_[i]; }
  std::span<const void* const> first(std::size_t n) const { return {addresses_.data(), n}; }

 private:
  static constexpr std::size_t skew = 4096 + 320;
  std::vector<char> memory_;
  std::vector<void*> addresses_;
};

/// The bytes a second that one core gets from memory, or from the cache into which buffers of this
/// size fit. It is the best of several passes, copied by memcpy or by the kernel with non-temporal
/// stores.
double memory_rate(std::size_t bytes) {
  constexpr int passes = 15;
  const std::size_t repeats = std::max<std::size_t>(1, large_bytes / bytes / 4);
  Buffers buffers(2, bytes);
  double best = 0;
  for (const bool streaming : {false, true}) {
    for (int pass = 0; pass < passes; ++pass) {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < repeats; ++i) {
        if (streaming) {
          tutti::reduce::reduce({DType::u8, DType::u8}, buffers.first(1), buffers.at(1), bytes,
                                true);
        } else {
          std::memcpy(buffers.at(1), buffers.at(0), bytes);
        }
        benchmark::ClobberMemory();
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::max(best, static_cast<double>(2 * bytes * repeats) / took.count());
    }
  }
  return best;
}

/// The rate is measured once for each size.
double usual_rate(std::size_t bytes) {
  static const double small = memory_rate(small_bytes);
  static const double large = memory_rate(large_bytes);
  return bytes == small_bytes ? small : large;
}

/// Reports `bytes` of traffic for each iteration since `start`, in buffers of `buffer_bytes`.
void report(benchmark::State& state, std::size_t bytes, std::size_t buffer_bytes,
            std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const double all = static_cast<double>(bytes) * static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<std::int64_t>(all));
  state.counters["of_memory"] = all / took.count() / usual_rate(buffer_bytes);
}

void run_memcpy(benchmark::State& state, std::size_t bytes) {
  Buffers buffers(2, bytes);
  const auto start = std::chrono::steady_clock::now();
  while (state.KeepRunning()) {
    std::memcpy(buffers.at(0), buffers.at(1), bytes);
    benchmark::ClobberMemory();
  }
  report(state, 2 * bytes, bytes, start);
}

void run_reduce(benchmark::State& state, Kernel kernel, std::size_t n, std::size_t bytes,
                bool streaming) {
  const std::size_t count = bytes / std::max(size_of(kernel.in), size_of(kernel.out));
  Buffers buffers(n + 1, bytes);
  const auto start = std::chrono::steady_clock::now();
  while (state.KeepRunning()) {
    tutti::reduce::reduce(kernel, buffers.first(n), buffers.at(n), count, streaming);
    benchmark::ClobberMemory();
  }
  report(state, count * (n * size_of(kernel.in) + size_of(kernel.out)), bytes, start);
}

void add(const Kernel& kernel, std::size_t bytes, const std::string& where, bool streaming) {
  for (const std::size_t n : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 16U}) {
    const std::string label = std::string(name(kernel.op)) + " " + std::string(name(kernel.in)) +
                              ">" + std::string(name(kernel.out)) + " n=" + std::to_string(n) +
                              " " + where;
    benchmark::RegisterBenchmark(label.c_str(), run_reduce, kernel, n, bytes, streaming);
  }
}

void add_all(std::size_t bytes, const std::string& where, bool streaming) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8,
                            DType::i32, DType::i64}) {
    add({dtype, dtype}, bytes, where, streaming);
  }
  add({DType::f32, DType::bf16}, bytes, where, streaming);
  add({DType::bf16, DType::f32}, bytes, where, streaming);
  add({DType::f32, DType::f32, ReduceOp::average, 3}, bytes, where, streaming);
  add({DType::f32, DType::f32, ReduceOp::max}, bytes, where, streaming);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::AddCustomContext("simd", std::string(tutti::reduce::simd_level()));
  benchmark::RegisterBenchmark("memcpy 16KiB", run_memcpy, small_bytes);
  add_all(small_bytes, "16KiB", false);
  benchmark::RegisterBenchmark("memcpy 64MiB", run_memcpy, large_bytes);
  add_all(large_bytes, "64MiB", false);
  add_all(large_bytes, "64MiB streaming", true);
  return tutti::bench::run_registered(argc, argv, 500);
}
