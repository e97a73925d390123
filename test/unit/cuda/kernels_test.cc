#include "cuda/kernels.h"

#include <sys/mman.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "../errors.h"
#include "../reduce/reference.h"
#include "cuda/kernel_arguments.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "machine.h"

using namespace tutti::cuda;
using reference::Bytes;
using tutti::DType;
using tutti::ReduceOp;
using tutti::reduce::Kernel;

namespace {

/// A GPU that reduces what lies on the host.
class Reducer {
 public:
  /// Each source lies `misalignment` bytes behind a boundary of 256, and so does the result.
  Bytes operator()(const Kernel& kernel, const std::vector<Bytes>& sources, std::size_t count,
                   std::size_t misalignment = 0) const {
    const std::size_t room = (count * 8 + misalignment) / 256 * 256 + 512;
    Bytes image(room * sources.size());
    const DeviceMemory in(gpu_, image.size());
    const DeviceMemory out(gpu_, room);
    std::vector<const void*> places;
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const std::size_t place = s * room + misalignment;
      std::copy(sources[s].begin(), sources[s].end(), image.begin() + std::ptrdiff_t(place));
      places.push_back(static_cast<std::byte*>(in.data()) + place);
    }
    Bytes result(room, std::byte{0x5A});
    stream_.copy_to_device(in.data(), image.data(), image.size());
    stream_.copy_to_device(out.data(), result.data(), room);
    kernels_.reduce(stream_.handle(), kernel, places,
                    static_cast<std::byte*>(out.data()) + misalignment, count);
    stream_.copy_to_host(result.data(), out.data(), room);
    stream_.synchronize();
    const std::size_t bytes = count * size_of(kernel.out);
    CHECK(result[misalignment + bytes] == std::byte{0x5A});
    if (misalignment > 0) CHECK(result[misalignment - 1] == std::byte{0x5A});
    const auto begin = result.begin() + std::ptrdiff_t(misalignment);
    return {begin, begin + std::ptrdiff_t(bytes)};
  }

 private:
  const Gpu gpu_{0};
  const ContextGuard context_{gpu_};
  const Stream stream_{gpu_};
  const Kernels kernels_{gpu_};
};

Bytes on_host(const Kernel& kernel, const std::vector<Bytes>& sources, std::size_t count) {
  std::vector<const void*> places;
  places.reserve(sources.size());
  for (const Bytes& source : sources) places.push_back(source.data());
  Bytes result(count * size_of(kernel.out));
  tutti::reduce::reduce(kernel, places, result.data(), count);
  return result;
}

void expect_equal(const Reducer& gpu, const Kernel& kernel, const std::vector<Bytes>& sources,
                  std::size_t count, std::size_t misalignment) {
  const bool equal = gpu(kernel, sources, count, misalignment) == on_host(kernel, sources, count);
  INFO(name(kernel.op) << " of " << sources.size() << " sources of " << name(kernel.in) << " to "
                       << name(kernel.out) << ", " << count << " elements, " << misalignment
                       << " bytes behind a boundary");
  CHECK(equal);
}

/// All numbers of 16 bits, beginning with `first`, `step` apart.
Bytes patterns(std::uint16_t first, std::uint16_t step) {
  Bytes all(std::size_t{2} << 16);
  auto number = first;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    std::memcpy(&all[i], &number, 2);
    number = static_cast<std::uint16_t>(number + step);
  }
  return all;
}

}  // namespace

TEST_CASE("kernels on a GPU have the bits of those on the host", "[gpu]") {
  const Reducer gpu;
  std::mt19937_64 random(1);
  for (const Kernel& kernel : reference::all_kernels(7)) {
    for (std::size_t n = 1; n <= 9; ++n) {
      for (const std::size_t misalignment : {0U, 1U}) {
        const std::size_t count = 131 + n;
        const auto sources = reference::random_sources(kernel.in, n, count, random);
        expect_equal(gpu, kernel, sources, count, misalignment);
      }
    }
  }
}

TEST_CASE("a GPU sums 64 sources and any fewer in the canonical tree", "[gpu][sanitized]") {
  const Reducer gpu;
  std::mt19937_64 random(2);
  for (const std::size_t n : {15U, 16U, 17U, 24U, 31U, 33U, 48U, 57U, 63U, 64U}) {
    const Kernel kernel{DType::f32, DType::f32};
    for (const std::size_t misalignment : {0U, 4U, 3U}) {
      expect_equal(gpu, kernel, reference::random_sources(DType::f32, n, 100, random), 100,
                   misalignment);
    }
  }
}

TEST_CASE("counts from 0 to a few are reduced, at every alignment", "[gpu]") {
  const Reducer gpu;
  std::mt19937_64 random(3);
  for (const DType dtype : {DType::bf16, DType::u8, DType::f64}) {
    for (std::size_t count = 0; count <= 5; ++count) {
      for (std::size_t misalignment = 0; misalignment <= 4; ++misalignment) {
        const auto sources = reference::random_sources(dtype, 3, count, random);
        expect_equal(gpu, {dtype, dtype}, sources, count, misalignment);
      }
    }
  }
}

// For compute-sanitizer: if a kernel touches other memory, or reads memory before it is written,
// that is an error.
TEST_CASE("kernels keep to their sources, whose memory ends where they end", "[gpu][sanitized]") {
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  const Stream stream(gpu);
  const Kernels kernels(gpu);
  std::mt19937_64 random(4);
  for (const Kernel& kernel : reference::all_kernels(3)) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{1027}}) {
      const std::size_t n = 1 + count % 4;
      const std::size_t before = count % 3;
      const auto sources = reference::random_sources(kernel.in, n, count, random);
      std::vector<std::unique_ptr<DeviceMemory>> memory;
      std::vector<const void*> places;
      for (const Bytes& source : sources) {
        memory.push_back(std::make_unique<DeviceMemory>(gpu, before + source.size()));
        places.push_back(static_cast<std::byte*>(memory.back()->data()) + before);
        stream.copy_to_device(const_cast<void*>(places.back()), source.data(), source.size());
      }
      const DeviceMemory out(gpu, count * size_of(kernel.out));
      kernels.reduce(stream.handle(), kernel, places, out.data(), count);
      Bytes result(out.size());
      stream.copy_to_host(result.data(), out.data(), result.size());
      stream.synchronize();
      CHECK(result == on_host(kernel, sources, count));
    }
  }
}

TEST_CASE("every pattern of 16 bits has the host's bits, with others and alone", "[gpu]") {
  const Reducer gpu;
  constexpr std::size_t count = 1 << 16;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Bytes all = patterns(0, 1);
    const std::vector<Bytes> pair{all, patterns(0x3C01, 0x9E37)};
    expect_equal(gpu, {dtype, DType::f32}, {all}, count, 0);
    expect_equal(gpu, {dtype, dtype, ReduceOp::average, 3}, {all}, count, 0);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max}) {
      expect_equal(gpu, {dtype, dtype, op, 3}, pair, count, 0);
    }
    // Halfway between two neighbours, and a last bit to either side.
    const Bytes wide = on_host({dtype, DType::f32}, {all}, count);
    for (const std::uint32_t beside : {0x0FFFU, 0x1000U, 0x1001U, 0x7FFFU, 0x8000U, 0x8001U}) {
      Bytes between = wide;
      for (std::size_t i = 0; i < between.size(); i += 4) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &between[i], 4);
        bits += beside;
        std::memcpy(&between[i], &bits, 4);
      }
      expect_equal(gpu, {DType::f32, dtype}, {between}, count, 0);
    }
  }
}

TEST_CASE("a GPU's reduction may overwrite one of its sources", "[gpu]") {
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  const Stream stream(gpu);
  const Kernels kernels(gpu);
  const std::vector<float> ones(1000, 1);
  const DeviceMemory a(gpu, 4000);
  const DeviceMemory b(gpu, 4000);
  stream.copy_to_device(a.data(), ones.data(), 4000);
  stream.copy_to_device(b.data(), ones.data(), 4000);
  const std::array<const void*, 2> sources{a.data(), b.data()};
  kernels.reduce(stream.handle(), {DType::f32, DType::f32}, sources, b.data(), 1000);
  std::vector<float> result(1000);
  stream.copy_to_host(result.data(), b.data(), 4000);
  stream.synchronize();
  CHECK(result == std::vector<float>(1000, 2));
}

TEST_CASE("a GPU refuses a reduction that no kernel does", "[gpu]") {
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  const Stream stream(gpu);
  const Kernels kernels(gpu);
  const DeviceMemory memory(gpu, 64);
  const std::vector<const void*> sources(65, memory.data());
  const auto reduce = [&](const Kernel& kernel, std::size_t n) {
    return tutti::error_of([&] {
      kernels.reduce(stream.handle(), kernel, std::span(sources).first(n), memory.data(), 1);
    });
  };
  CHECK(reduce({DType::f32, DType::f32}, 65) ==
        "internal: no kernel for a GPU from 65 sources of f32 to f32");
  CHECK(reduce({DType::f32, DType::f32}, 0) ==
        "internal: no kernel for a GPU from 0 sources of f32 to f32");
  CHECK(reduce({DType::i32, DType::f32}, 2) ==
        "internal: no kernel for a GPU from 2 sources of i32 to f32");
  CHECK(reduce({DType::i32, DType::i32, ReduceOp::average, 0.5}, 2) ==
        "internal: reduce: cannot average i32 by 0.5");
}

// Takes 5.4 GB of the device, and a stand-in minutes.
TEST_CASE("a GPU reduces elements behind the first 2^31", "[.][gpu-large]") {
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  const Stream stream(gpu);
  const Kernels kernels(gpu);
  constexpr std::size_t count = (std::size_t{5} << 29) + 3;
  const DeviceMemory a(gpu, count);
  const DeviceMemory b(gpu, count);
  const std::vector<std::size_t> places{0, (std::size_t{1} << 31) - 1, std::size_t{1} << 31,
                                        (std::size_t{9} << 28) + 17, count - 1};
  const std::uint8_t one = 1;
  const std::uint8_t two = 2;
  const auto at = [](const DeviceMemory& memory, std::size_t place) {
    return static_cast<std::byte*>(memory.data()) + place;
  };
  for (const std::size_t place : places) {
    stream.copy_to_device(at(a, place), &one, 1);
    stream.copy_to_device(at(b, place), &two, 1);
  }
  const std::array<const void*, 2> sources{a.data(), b.data()};
  kernels.reduce(stream.handle(), {DType::u8, DType::u8}, sources, b.data(), count);
  for (const std::size_t place : places) {
    std::uint8_t sum = 0;
    stream.copy_to_host(&sum, at(b, place), 1);
    stream.synchronize();
    CHECK(sum == 3);
  }
}

TEST_CASE("elements behind the first 2^31 are reduced") {
  // A launch in which each thread reduces one pack. Only a single thread of it is run.
  constexpr std::size_t count = (std::size_t{5} << 29) + 3;
  constexpr unsigned threads = 256;
  constexpr auto blocks = static_cast<unsigned>(count / 4 / threads + 1);
  constexpr std::size_t pack = std::size_t{blocks - 2} * threads + 17;
  const auto map = [] {
    void* const memory = ::mmap(nullptr, count, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    return static_cast<std::uint8_t*>(memory);
  };
  std::uint8_t* const a = map();
  std::uint8_t* const b = map();
  a[4 * pack + 3] = 1;
  b[4 * pack + 3] = 2;
  KernelArguments arguments{
      .sources = {a, b}, .dst = b, .count = count, .divisor = 1, .source_count = 2};
  auto* const run =
      standin::function<bool(const char*, const void*, unsigned, unsigned, unsigned, unsigned)>(
          "libcuda.so.1", "standin_run_thread");
  CHECK(run("tutti_sum_u8_u8", &arguments, blocks, threads, blocks - 2, 17));
  CHECK(b[4 * pack + 3] == 3);
  ::munmap(a, count);
  ::munmap(b, count);
}
