// A program that knows the public headers and links libtutti alone.
#include "tutti/tutti.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/info.h"

using namespace tutti;

namespace {

/// Those of this build that a single process can have.
constexpr std::string_view store_types[] = {STORE_TYPES};

}  // namespace

TEST_CASE("the calls of the documentation compile and work as they are written") {
  const auto kv = KVStore::create("local");
  std::array<float, 2> weights{1, 2};
  std::array<float, 2> gradients{3, 4};
  const Tensor value(weights.data(), {2}, DType::f32);
  const Tensor grad(gradients.data(), {2}, DType::f32);
  const int layer = 5;
  kv->broadcast("w", value, /*root_rank=*/0).wait();
  const Pending p = kv->pushpull("w", {grad}, {grad}, {.priority = -layer});
  p.wait();
  kv->pushpull({"w", "b"}, {{grad, value}, {grad}}, {{grad}, {value}}).wait();
  CHECK(gradients == std::array<float, 2>{4, 6});
  CHECK(weights == std::array<float, 2>{3, 4});
}

TEST_CASE("a bound call is made again and again in every type of store") {
  for (const std::string_view type : store_types) {
    INFO(type);
    Options options;
    if (type == "dist_sync_mpi") options.ranks = {0};
    auto kv = KVStore::create(type, options);
    std::array<float, 2> first{1, 2};
    std::array<float, 2> second{3, 4};
    const Tensor a(first.data(), {2}, DType::f32);
    const Tensor b(second.data(), {2}, DType::f32);
    const Bound sum = kv->bind("w", {a, b}, {a});
    sum.wait();
    CHECK(first == std::array<float, 2>{1, 2});
    sum.run();
    CHECK(first == std::array<float, 2>{4, 6});
    const Bound copy = sum;  // NOLINT(performance-unnecessary-copy-initialization): a copy is tried
    copy.start().wait();
    CHECK(first == std::array<float, 2>{7, 10});
    CHECK(sum.wait_for(std::chrono::nanoseconds(0)));
    kv.reset();
    try {
      static_cast<void>(sum.start());
      FAIL("was taken");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::aborted);
    }
  }
}

TEST_CASE("a binding that was moved from refuses every call, and the other one works") {
  const auto kv = KVStore::create("local");
  float value = 3;
  const Tensor tensor(&value, {}, DType::f32);
  Bound from = kv->bind("w", tensor, tensor);
  const Bound to = std::move(from);
  using namespace std::chrono_literals;
  // NOLINTBEGIN(bugprone-use-after-move): that is what the case is about.
  const std::vector<std::function<void()>> calls{[&] { from.start(); }, [&] { from.wait(); },
                                                 [&] { from.wait_for(1s); }, [&] { from.run(); },
                                                 [&] { from.run_for(1s); }};
  // NOLINTEND(bugprone-use-after-move)
  for (const auto& call : calls) {
    try {
      call();
      FAIL("was taken");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      CHECK_THAT(error.what(), Catch::StartsWith("this Bound refers to no binding"));
    }
  }
  to.run();
  CHECK(value == 3);
}

TEST_CASE("a store that was closed refuses every call that exchanges or changes something") {
  for (const std::string_view type : store_types) {
    INFO(type);
    Options options;
    if (type == "dist_sync_mpi") options.ranks = {0};
    const auto kv = KVStore::create(type, options);
    std::array<float, 2> gradients{3, 4};
    const Tensor grad(gradients.data(), {2}, DType::f32);
    kv->pushpull("w", {grad}, {grad}).wait();
    kv->close();
    kv->close();
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { kv->pushpull("w", {grad}, {grad}); }, [&] { kv->bind("w", grad, grad); },
             [&] { kv->broadcast("w", grad, 0); }, [&] { kv->barrier(); }, [&] { kv->join(); },
             [&] { kv->allocate({1}, DType::f32); },
             [&] { kv->set_gradient_compression("none"); }}) {
      try {
        call();
        FAIL("was taken");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::aborted);
        CHECK_THAT(error.what(), Catch::Contains("of a store that is closed"));
      }
    }
    CHECK(kv->num_workers() == 1);
  }
}

TEST_CASE("errors thrown inside the library are caught by type outside it") {
  CHECK_THROWS_AS(KVStore::create("no such type"), Error);
}

TEST_CASE("the library says its version, how it was built, its MPI, and the machine") {
  const std::vector<Fact> facts = build_info();
  const auto value = [&](std::string_view name) {
    const auto fact =
        std::find_if(facts.begin(), facts.end(), [&](const Fact& f) { return f.name == name; });
    return fact == facts.end() ? std::string() : fact->value;
  };
  CHECK(value("tutti") == version());
  CHECK(value("build type") == build_type());
  for (const char* name : {"compiler", "build options", "SIMD level", "MPI compiled against",
                           "MPI loaded", "MPI thread level", "MPI is CUDA-aware", "CUDA and NCCL",
                           "parameter server", "host", "processor", "usable processors"}) {
    INFO(name);
    CHECK_FALSE(value(name).empty());
  }
}

TEST_CASE("the library says which GPUs there are, or why there is none") {
  const std::vector<Fact> facts = gpu_info();
  REQUIRE_FALSE(facts.empty());
  for (const Fact& fact : facts) CHECK_FALSE(fact.value.empty());
}

TEST_CASE("options are described by their variables, in the variables' own words") {
  Options options;
  options.part_bytes = 3u << 20;
  options.stall_report_after = std::chrono::milliseconds(1500);
  options.interface = "eth7";
  std::string text;
  for (const Fact& fact : describe(options)) text += fact.name + "=" + fact.value + " ";
  CHECK(text ==
        "DMLC_INTERFACE=eth7 TUTTI_ENCRYPT=0 TUTTI_USER_MAKES_NO_MPI_CALLS=0 "
        "TUTTI_REPRODUCIBLE=1 TUTTI_STALENESS=off TUTTI_GPU=auto "
        "TUTTI_STALL_SECONDS=1.5 TUTTI_TIMEOUT_SECONDS=1800 TUTTI_HEARTBEAT_SECONDS=30 "
        "TUTTI_CREATE_SECONDS=300 TUTTI_LOG=warning TUTTI_TIMELINE= TUTTI_REPLAY=1 "
        "TUTTI_FUSION_BYTES=auto "
        "TUTTI_PART_BYTES=3M TUTTI_SLICE_BYTES=0 ");
}
