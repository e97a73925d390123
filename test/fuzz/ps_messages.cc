#include "fuzz/decoders.h"
#include "ps/wire.h"

namespace tutti::fuzz {
namespace {

using namespace ps;

constexpr Decoder all[] = {{read_message<decode_to_scheduler>},
                           {read_message<decode_from_scheduler>},
                           {read_message<decode_to_server>},
                           {read_message<decode_answer>}};

const std::vector<std::byte> elements(12, std::byte{1});
const Failure failure{ErrorCode::mismatch, "workers 1 and 2 said", {1, 2}};
const Optimizer adam{"adam", {{"beta1", 0.5}}, {{"bias", {.learning_rate = 2, .wd = 0}}, {7, {}}}};

std::vector<ToServer> requests() {
  return {Contribution{.sequence = 7,
                       .piece = {"fc1_weight", 1, 3},
                       .kind = Kind::pushpull,
                       .op = ReduceOp::average,
                       .root = 2,
                       .dtype = DType::u8,
                       .shape = {3, 4},
                       .compression = {Encoding::two_bits, 0.5F},
                       .data = elements},
          Pull{8, {5, 0, 1}, DType::f16, {2, 3}, {}},
          Pull{8, {5, 0, 1}, DType::f16, {}, {}},
          Pull{8, {5, 0, 1}, DType::f16, {2}, std::vector<std::int64_t>{}},
          Pull{8, {5, 0, 1}, DType::f16, {9, 3}, std::vector<std::int64_t>{0, 2, 8}},
          SetOptimizer{9, adam},
          Goodbye{},
          SetCompression{9, {Encoding::one_bit, 0}},
          PullOptimizer{9},
          PullState{9, {"w", 0, 1}},
          SetState{9, {"w", 0, 1}, elements},
          LoadStates{9, {}, "adam", adam},
          LoadStates{9, failure, "adam", {}},
          Withdrawal{4, {"w", 1, 2}, Kind::broadcast}};
}

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  std::vector<Seed> seeds;
  const Register node{Role::server, 1, 4, 2, "0.1", true, "10.0.0.1", 999, 3};
  const Locate locate{{{"w", 12, DType::f64, true}, {5, 7, DType::f16}}};
  add_messages<ToScheduler>(
      seeds, 0, {node, BarrierAsked{}, locate, Goodbye{}, Finished{"it broke"}, LocateAll{}});
  const Welcome welcome{1, true, {{"10.0.0.1", 999}, {"::1", 1}}, 2};
  const Located located{{{"w", {1, 0}}, {3, {0}}}, true};
  add_messages<FromScheduler>(
      seeds, 1,
      {Refused{failure}, welcome, located, BarrierOver{}, BarrierOver{failure},
       Lost{Role::server, 1, "it was closed"}, End{}});
  add_messages<ToServer>(seeds, 2, requests());
  seeds.push_back({3, encode(Answer{4, std::nullopt, elements})});
  seeds.push_back({3, encode(Answer{3, failure, {}})});
  return seeds;
}

}  // namespace tutti::fuzz
