#include <algorithm>

#include "fuzz/decoders.h"
#include "net/bytes.h"
#include "ps/protocol/wire.h"

namespace tutti::fuzz {
namespace {

using namespace ps;

/// A large message arrives in two parts: the first byte says how long the first one is.
template <auto decode>
bool read_parts(Bytes bytes) {
  if (bytes.empty()) return false;
  const std::size_t length = std::min(std::to_integer<std::size_t>(bytes[0]), bytes.size() - 1);
  const Bytes part = bytes.subspan(1, length);
  const std::vector<std::byte> head(part.begin(), part.end());
  const auto message = accepted([&] { return decode(head, bytes.subspan(1 + length)); });
  if (!message) return false;
  const std::vector<std::byte> sent = encode(*message);
  if (encode(decode(sent, {})) != sent) fail("sent on, it arrives as another message");
  return true;
}

ToServer whole_request(Bytes bytes) {
  return decode_to_server(bytes);
}
Answer whole_answer(Bytes bytes) {
  return decode_answer(bytes);
}

constexpr Decoder all[] = {
    {read_message<decode_to_scheduler>}, {read_message<decode_from_scheduler>},
    {read_message<whole_request>},       {read_message<whole_answer>},
    {read_parts<decode_to_server>},      {read_parts<decode_answer>}};

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
          Contribution{.sequence = 8, .shape = {9}, .room = Room{4096, 4096, 36}},
          Pull{8, {5, 0, 1}, DType::f16, {2, 3}, {}, Room{4096, 8192, 0}},
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
          Withdrawal{4, {"w", 1, 2}, Kind::broadcast, failure},
          Recall{5, 4, PieceName{"w", 1, 2}, Recall::Step::hold, {}},
          Recall{6, 4, {}, Recall::Step::give_up, failure},
          FindMissing{4, PieceName{"w", 1, 2}},
          FindMissing{5, {}}};
}

std::vector<std::byte> in_parts(const std::vector<std::byte>& head) {
  std::vector<std::byte> both{static_cast<std::byte>(head.size())};
  net::append(both, head);
  net::append(both, elements);
  return both;
}

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  std::vector<Seed> seeds;
  const Register worker{Role::worker, 1, 4, 2, "0.1", true, "", 0, 3};
  const Register server{
      .role = Role::server,
      .version = "0.1",
      .address = "10.0.0.1",
      .port = 999,
      .durable = true,
      .keeps = true,
      .brings = {{}, {7, {{{"w", 1, 2}, 12, DType::f64}, {{5, 0, 1}, 0, DType::f16}}, {{1, 9}}}},
      .host = "node1",
      .process = 42};
  const Locate locate{{{"w", 12, DType::f64, true}, {5, 7, DType::f16}}};
  add_messages<ToScheduler>(seeds, 0,
                            {worker, server, BarrierArrival{}, locate, Goodbye{}, Finished{},
                             LocateAll{}, Stopping{"why"}, Ready{}, Stay{}, ReadOn{1, 7}});
  Welcome welcome{1, true, {{"10.0.0.1", 999, true, true}, {"::1", 1}}, 2, 7, {"w", 5}};
  welcome.doubt = "the states of the servers";
  const Located located{{{"w", {{1, 0}, 7}}, {3, {{0}, 1}}}, true};
  add_messages<FromScheduler>(seeds, 1,
                              {Refused{failure}, welcome, located, BarrierRelease{},
                               BarrierRelease{failure}, Lost{Role::server, 1, "it was closed"},
                               End{}, Away{1, "it was closed"}, Returned{1, "10.0.0.1", 999},
                               Gathered{}, Begin{}, Another{}, Over{}, Staying{7}, ReadOn{1, 7}});
  add_messages<ToServer>(seeds, 2, requests());
  seeds.push_back({3, encode(Answer{4, std::nullopt, elements})});
  seeds.push_back({3, encode(Answer{3, failure, {}})});
  seeds.push_back({3, encode(Answer{.sequence = 3, .failure = {}, .room = Room{.filled = 12}})});
  const ToServer push = Contribution{.sequence = 7, .shape = {3}, .data = elements};
  seeds.push_back({4, in_parts(encode_head(push))});
  seeds.push_back({5, in_parts(encode_head(Answer{4, std::nullopt, elements}))});
  return seeds;
}

}  // namespace tutti::fuzz
