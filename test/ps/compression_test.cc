// Compressed gradients over servers.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "ps/local_job.h"

using namespace tutti;
using Catch::Contains;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

/// The bytes that `call` makes the worker send to servers.
template <typename Call>
std::uint64_t bytes_sent(KVStore& kv, const Call& call) {
  const std::uint64_t before = kv.counters().bytes_between_nodes;
  call();
  return kv.counters().bytes_between_nodes - before;
}

}  // namespace

TEST_CASE("gradients travel in fewer bytes, and first values and results whole") {
  struct Case {
    const char* kind;
    double times;
  };
  constexpr std::size_t count = 100'000;
  constexpr double bytes = 4 * count;
  for (const auto& [kind, times] :
       {Case{"none", 1}, Case{"fp16", 2}, Case{"bf16", 2}, Case{"2bit", 16}, Case{"1bit", 32}}) {
    INFO(kind);
    LocalJob job({.workers = 2, .servers = 2, .big_count = 1000});
    const auto said = job.run([&, kind = kind, times = times](KVStore& kv) -> std::string {
      kv.set_gradient_compression(kind);
      Floats value(count, 0.1F);
      const auto broadcast =
          bytes_sent(kv, [&] { kv.broadcast("w", tensor(value), /*root_rank=*/0).wait(); });
      if (kv.rank() == 0 && static_cast<double>(broadcast) < bytes) return "the first value";
      Floats gradient(count, 1);
      for (const bool pulls : {false, true}) {
        const auto sent = bytes_sent(kv, [&] {
          if (pulls) {
            kv.pushpull("w", tensor(gradient), tensor(value)).wait();
          } else {
            kv.push({"w"}, {tensor(gradient)}).wait();
          }
        });
        // Beside the elements there is little.
        if (std::abs(static_cast<double>(sent) * times / bytes - 1) > 0.1) {
          return "sent " + std::to_string(sent);
        }
      }
      kv.pull({"w"}, {tensor(gradient)}).wait();
      return gradient == value ? "right" : "other values come back";
    });
    CHECK(said == Said{"right", "right"});
  }
}

TEST_CASE("gradients that two bits leave out arrive with later ones, from every worker") {
  LocalJob job({.workers = 2, .servers = 3, .big_count = 4});
  CHECK(job.run([](KVStore& kv) {
    kv.set_gradient_compression("2bit", 1);
    Floats sum(9);
    Floats total(9, 0);
    for (int step = 0; step < 10; ++step) {
      Floats gradient(9, kv.rank() == 0 ? 0.25F : -0.5F);
      kv.pushpull("g", tensor(gradient), tensor(sum)).wait();
      for (std::size_t i = 0; i < 9; ++i) total[i] += sum[i];
    }
    // 2.5 and -5 were given; 2 and -5 have been sent.
    return text_of(total);
  }) == Said(2, "-3 -3 -3 -3 -3 -3 -3 -3 -3"));
}

TEST_CASE("an optimizer with two bits of each gradient still finds the minimum") {
  LocalJob job({.workers = 2, .servers = 2, .big_count = 3});
  const auto said = job.run([](KVStore& kv) {
    // The threshold is above every gradient. Gradients that are not sent at once add up.
    kv.set_gradient_compression("2bit", 8);
    kv.set_optimizer({"sgd", {{"learning_rate", 0.005}}});
    Floats value{3, -1, 0.5F, 7};
    kv.broadcast("w", tensor(value), 0).wait();
    for (int step = 0; step < 2000; ++step) {
      Floats gradient(4);
      for (std::size_t i = 0; i < 4; ++i) gradient[i] = value[i] - 1;
      kv.pushpull("w", tensor(gradient), tensor(value)).wait();
    }
    for (const float one : value) {
      if (std::abs(one - 1) > 0.2F) return text_of(value);
    }
    return std::string("found");
  });
  CHECK(said == Said{"found", "found"});
}

TEST_CASE(
    "a NaN or an infinity in a gradient makes that element of the sum so, once, with every kind") {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (const char* kind : {"fp16", "bf16", "2bit", "1bit"}) {
    LocalJob job({});
    CHECK(job.run([&](KVStore& kv) {
      kv.set_gradient_compression(kind);
      std::string said;
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinite, -infinite, 1.0F}) {
        Floats gradient{1, 1};
        if (kv.rank() == 1) gradient[0] = bad;
        kv.pushpull("g", tensor(gradient), tensor(gradient)).wait();
        for (const float sum : gradient) said += std::isfinite(sum) ? '+' : '-';
      }
      return said;
    }) == Said{"-+-+-+++", "-+-+-+++"});
  }
}

TEST_CASE("compression that is wrong is refused, on all workers alike") {
  LocalJob job({});
  const auto said = job.run([](KVStore& kv) {
    std::string text;
    const auto attempt = [&](const auto& call) {
      try {
        call();
        text += "no error; ";
      } catch (const Error& error) {
        text += std::string(name(error.code())) + ": " + error.what() + "; ";
      }
    };
    attempt([&] { kv.set_gradient_compression("2bit", std::nan("")); });
    attempt([&] { kv.set_gradient_compression("2bit", 0); });
    attempt([&] { kv.set_gradient_compression("3bit"); });
    attempt([&] { kv.set_gradient_compression(kv.rank() == 0 ? "2bit" : "1bit", 1); });
    attempt([&] { kv.set_gradient_compression("2bit", 1); });
    std::vector<std::int32_t> whole{1, 2};
    const Tensor integers(whole.data(), {2}, DType::i32);
    attempt([&] { kv.pushpull("i", integers, integers); });
    // The greatest is not made of parts, so it travels whole.
    attempt([&] { kv.pushpull("i", integers, integers, {.op = ReduceOp::max}); });
    attempt([&] { kv.set_gradient_compression("none"); });
    return text;
  });
  CHECK(said[0] == said[1]);
  CHECK_THAT(said[0],
             Contains("invalid_argument: gradient compression '2bit': the threshold is nan") &&
                 Contains("the threshold is 0, and must be a finite number above 0") &&
                 Contains("unsupported: gradient compression '3bit' is not known, did you mean") &&
                 Contains("mismatch: set_gradient_compression: worker 1 passed '1bit' with") &&
                 Contains("invalid_argument: pushpull of key 'i': gradient compression '2bit' "
                          "takes f32, f16 and bf16, but the tensor is i32") &&
                 Contains("set_gradient_compression('none') came after the first tensor"));
}

TEST_CASE("16-bit gradients are compressed to two bits, and their error is kept in 32") {
  LocalJob job({.workers = 1, .servers = 1});
  CHECK(job.run([](KVStore& kv) {
    kv.set_gradient_compression("2bit", 1);
    std::string text;
    for (int step = 0; step < 4; ++step) {
      std::uint16_t half = 0x3800;  // 0.5 in f16
      const Tensor gradient(&half, {1}, DType::f16);
      kv.pushpull("g", gradient, gradient).wait();
      text += half == 0 ? "0 " : half == 0x3c00 ? "1 " : "? ";
    }
    return text;
  }) == Said{"0 1 0 1 "});
}
