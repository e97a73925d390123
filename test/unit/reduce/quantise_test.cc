#include "reduce/quantise.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace tutti::reduce;

namespace {

/// Sends gradients in few bits, one after the other.
class Sender {
 public:
  Sender(Code code, float threshold, std::size_t count)
      : code_(code), threshold_(threshold), residual_(count), words_(words_for(code, count)) {}

  std::vector<float> send(const std::vector<float>& gradient) {
    accepted_ = quantise(code_, threshold_, gradient, residual_.data(), words_.data());
    std::vector<float> received(gradient.size());
    dequantise(code_, threshold_, words_.data(), received);
    return received;
  }
  const std::vector<float>& residual() const { return residual_; }
  const std::vector<std::uint32_t>& words() const { return words_; }
  bool accepted() const { return accepted_; }

 private:
  Code code_;
  float threshold_;
  std::vector<float> residual_;
  std::vector<std::uint32_t> words_;
  bool accepted_ = false;
};

constexpr float no_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("two bits send the threshold up or down, or nothing, and keep the rest") {
  Sender sender(Code::two_bits, 0.5F, 5);
  CHECK(sender.send({0.5F, -0.5F, 0.25F, -1.75F, 0.0F}) ==
        std::vector<float>{0.5F, -0.5F, 0, -0.5F, 0});
  CHECK(sender.residual() == std::vector<float>{0, 0, 0.25F, -1.25F, 0});
  CHECK(sender.send({0, 0, 0.25F, 0, 0}) == std::vector<float>{0, 0, 0.5F, -0.5F, 0});
  CHECK(sender.residual() == std::vector<float>{0, 0, 0, -0.75F, 0});
}

TEST_CASE("one bit sends 1 above the threshold and else -1, and keeps the rest") {
  Sender sender(Code::one_bit, 0.25F, 3);
  CHECK(sender.send({0.5F, 0.25F, -3}) == std::vector<float>{1, -1, -1});
  CHECK(sender.residual() == std::vector<float>{-0.5F, 1.25F, -2});
}

TEST_CASE("element i stands at its bits, and the last word is filled up with zeros") {
  Sender two(Code::two_bits, 1, 18);
  std::vector<float> gradient(18);
  gradient[1] = 1;
  gradient[15] = -1;
  gradient[17] = 1;
  two.send(gradient);
  CHECK(two.words() == std::vector<std::uint32_t>{(1U << 2U) | (2U << 30U), 1U << 2U});
  Sender one(Code::one_bit, 0, 33);
  one.send(std::vector<float>(33, 1));
  CHECK(one.words() == std::vector<std::uint32_t>{0xffffffff, 1});
}

TEST_CASE("the sent and the residual parts add up to all gradients") {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> eighths(-16, 16);
  for (const Code code : {Code::one_bit, Code::two_bits}) {
    for (const std::size_t count : {1U, 15U, 16U, 17U, 31U, 32U, 33U, 1000U}) {
      Sender sender(code, 0.5F, count);
      std::vector<float> brought(count);
      std::vector<float> sent(count);
      for (int step = 0; step < 20; ++step) {
        std::vector<float> gradient(count);
        for (std::size_t i = 0; i < count; ++i) {
          gradient[i] = static_cast<float>(eighths(random)) / 8;
          brought[i] += gradient[i];
        }
        const std::vector<float> received = sender.send(gradient);
        for (std::size_t i = 0; i < count; ++i) sent[i] += received[i];
      }
      for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(sent[i] + sender.residual()[i] == brought[i]);
      }
    }
  }
}

TEST_CASE("a NaN or an infinity arrives as NaN in two bits, once, and is refused in one") {
  for (const float bad : {no_number, infinite, -infinite}) {
    Sender two(Code::two_bits, 0.5F, 2);
    two.send({0.25F, 0});
    const std::vector<float> received = two.send({bad, 1});
    CHECK(std::isnan(received[0]));
    CHECK(received[1] == 0.5F);
    CHECK(two.residual() == std::vector<float>{0, 0.5F});
    CHECK(two.send({0.5F, 0}) == std::vector<float>{0.5F, 0.5F});
    Sender one(Code::one_bit, 0.5F, 2);
    one.send({1, 1});
    const std::vector<float> before = one.residual();
    one.send({2, bad});
    CHECK_FALSE(one.accepted());
    CHECK(one.residual() == before);
  }
}

TEST_CASE("an element that becomes infinite with the residual is treated as one that came so") {
  const float large = std::numeric_limits<float>::max();
  Sender two(Code::two_bits, 1, 1);
  CHECK(two.send({large}) == std::vector<float>{1});
  CHECK(std::isnan(two.send({large})[0]));
  CHECK(two.send({0}) == std::vector<float>{0});
  Sender one(Code::one_bit, 0, 1);
  CHECK(one.send({large}) == std::vector<float>{1});
  one.send({large});
  CHECK_FALSE(one.accepted());
  one.send({-large});
  CHECK(one.accepted());
}
