#include "ps/protocol/wire.h"

#include <catch2/catch.hpp>
#include <random>

#include "unit/errors.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;
using Bytes = std::vector<std::byte>;

namespace {

const Bytes elements{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

Bytes some_contribution() {
  return encode(ToServer(Contribution{.sequence = 7,
                                      .piece = {"fc1_weight", 1, 3},
                                      .kind = Kind::pushpull,
                                      .op = ReduceOp::average,
                                      .root = 2,
                                      .dtype = DType::u8,
                                      .shape = {3, 4},
                                      .data = elements}));
}

Bytes copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("a contribution arrives as it was sent, elements and all") {
  const Bytes bytes = some_contribution();
  const auto said = std::get<Contribution>(decode_to_server(bytes));
  CHECK(said.sequence == 7);
  CHECK(said.piece == PieceName{"fc1_weight", 1, 3});
  CHECK(said.kind == Kind::pushpull);
  CHECK(said.op == ReduceOp::average);
  CHECK(said.root == 2);
  CHECK(said.dtype == DType::u8);
  CHECK(said.shape == Shape{3, 4});
  CHECK(copy_of(said.data) == elements);
}

TEST_CASE("the other requests and answers arrive as they were sent") {
  const Bytes pull = encode(ToServer(Pull{8, {5, 0, 1}, DType::f16, {}}));
  CHECK(std::get<Pull>(decode_to_server(pull)).piece == PieceName{5, 0, 1});
  const Optimizer adam{"adam", {{"beta1", 0.5}}, {{"bias", {.learning_rate = 2, .wd = 0}}}};
  const Bytes set = encode(ToServer(SetOptimizer{9, adam}));
  CHECK(std::get<SetOptimizer>(decode_to_server(set)).optimizer == adam);
  CHECK(std::holds_alternative<Goodbye>(decode_to_server(encode(ToServer(Goodbye{})))));

  const Failure failure{ErrorCode::mismatch, "workers 1 said", {1}};
  const Bytes refused = encode(Answer{3, failure, {}});
  CHECK(decode_answer(refused).failure == failure);
  const Bytes value = encode(Answer{4, std::nullopt, elements});
  CHECK(copy_of(decode_answer(value).data) == elements);
}

TEST_CASE("messages of durable servers and the scheduler arrive as they were sent") {
  Register server{Role::server, 1, 4, 2, "0.1", false, "10.0.0.1", 999};
  server.durable = true;
  const std::vector<Moment> moments{{0, 3, false}, {1, std::uint64_t{1} << 40, true}};
  server.brings = {{7}, {std::uint64_t{1} << 63, {{{"w", 1, 3}, 12, DType::f64}}, moments}};
  server.host = "h1";
  server.host_identity = "boot 7";
  server.process = 77;
  const auto said = std::get<Register>(decode_to_scheduler(encode(ToScheduler(server))));
  CHECK(said.durable);
  REQUIRE(said.brings.size() == 2);
  CHECK(said.brings[0].job == 7);
  CHECK(said.brings[0].held.empty());
  CHECK(said.brings[0].moments.empty());
  CHECK(said.brings[1].moments == moments);
  CHECK(said.brings[1].job == server.brings[1].job);
  CHECK(said.brings[1].held.at(0).piece == PieceName{"w", 1, 3});
  CHECK(said.brings[1].held.at(0).count == 12);
  CHECK(said.brings[1].held.at(0).dtype == DType::f64);
  CHECK(said.host == "h1");
  CHECK(said.host_identity == "boot 7");
  CHECK(said.process == 77);
  const auto stopping =
      std::get<Stopping>(decode_to_scheduler(encode(ToScheduler(Stopping{"SIGTERM"}))));
  CHECK(stopping.reason == "SIGTERM");
  CHECK(std::holds_alternative<Ready>(decode_to_scheduler(encode(ToScheduler(Ready{})))));
  CHECK(std::holds_alternative<Begin>(decode_from_scheduler(encode(FromScheduler(Begin{})))));
  CHECK(std::holds_alternative<Gathered>(decode_from_scheduler(encode(FromScheduler(Gathered{})))));
  server.brings.resize(3);
  CHECK_THROWS_AS(decode_to_scheduler(encode(ToScheduler(server))), Error);
  const auto away = std::get<Away>(decode_from_scheduler(encode(FromScheduler(Away{1, "why"}))));
  CHECK(away.rank == 1);
  CHECK(away.reason == "why");
  const Returned back{1, "10.0.0.2", 78};
  const auto returned = std::get<Returned>(decode_from_scheduler(encode(FromScheduler(back))));
  CHECK(returned.rank == 1);
  CHECK(returned.address == "10.0.0.2");
  CHECK(returned.port == 78);
}

TEST_CASE("elements may come apart from their message, but not in two places") {
  const Bytes whole = some_contribution();
  const Bytes head(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(elements.size()));
  const auto said = std::get<Contribution>(decode_to_server(head, elements));
  CHECK(said.data.data() == elements.data());
  CHECK(said.piece == PieceName{"fc1_weight", 1, 3});
  CHECK_THAT(text_of(ErrorCode::internal, [&] { decode_to_server(whole, elements); }),
             Contains("in two places"));
  CHECK(encode_head(ToServer(said)) == head);
  CHECK(elements_of(ToServer(said)).data() == elements.data());

  const Bytes answer = encode_head(Answer{4, std::nullopt, elements});
  CHECK(decode_answer(answer, elements).data.data() == elements.data());
}

TEST_CASE("a room arrives with its request, and with an answer the bytes in it") {
  const Room room{4096, 8192, 5000};
  const ToServer push =
      Contribution{.sequence = 1, .piece = {"w", 0, 1}, .shape = {5000}, .room = room};
  CHECK(std::get<Contribution>(decode_to_server(encode(push))).room == room);
  const ToServer pull = Pull{.sequence = 1, .piece = {"w", 0, 1}, .room = room};
  CHECK(std::get<Pull>(decode_to_server(encode(pull))).room == room);
  CHECK_FALSE(std::get<Contribution>(decode_to_server(some_contribution())).room);
  const auto answer = decode_answer(encode(Answer{.sequence = 1, .failure = {}, .room = room}));
  CHECK(answer.room == Room{.filled = 5000});
  const ToServer more = Contribution{
      .sequence = 1, .piece = {"w", 0, 1}, .shape = {5000}, .room = Room{0, 4096, 5000}};
  CHECK_THAT(text_of(ErrorCode::internal, [&] { decode_to_server(encode(more)); }),
             Contains("more than it holds"));
}

TEST_CASE("messages of nodes and scheduler arrive as they were sent") {
  const Register server{Role::server, 1, 4, 2, "0.1", false, "10.0.0.1", 999};
  const auto said = std::get<Register>(decode_to_scheduler(encode(ToScheduler(server))));
  CHECK(said.role == Role::server);
  CHECK(said.address == "10.0.0.1");
  CHECK(said.port == 999);
  const Locate locate{{{"w", 12, DType::f64}}};
  const auto asked = std::get<Locate>(decode_to_scheduler(encode(ToScheduler(locate))));
  CHECK(asked.values.at(0).count == 12);

  Welcome welcome{1, true, {{"10.0.0.1", 999}, {"::1", 1, true}}};
  welcome.job = 12;
  welcome.dropped = {"w", 5};
  welcome.place = {2, 3, 5};
  welcome.begins_with = 13;
  const auto met = std::get<Welcome>(decode_from_scheduler(encode(FromScheduler(welcome))));
  CHECK(met.servers.at(1).address == "::1");
  CHECK(met.servers.at(1).durable);
  CHECK_FALSE(met.servers.at(0).durable);
  CHECK(met.job == 12);
  CHECK(met.begins_with == 13);
  CHECK(met.dropped == std::vector<Key>{"w", 5});
  CHECK(met.place == welcome.place);
  for (const Welcome::Locality nowhere : {Welcome::Locality{-1, 3, 5}, {3, 3, 5}, {0, 1, 0}}) {
    welcome.place = nowhere;
    const Bytes none = encode(FromScheduler(welcome));
    CHECK_THAT(text_of(ErrorCode::internal, [&] { decode_from_scheduler(none); }),
               Contains("a place on no host"));
  }
  const Located located{{{"w", {{1, 0}, 5}}}};
  const auto found = std::get<Located>(decode_from_scheduler(encode(FromScheduler(located))));
  CHECK(found.placements.at(0).places == Places{{1, 0}, 5});
  const Lost lost{Role::server, 1, "it was closed"};
  const auto gone = std::get<Lost>(decode_from_scheduler(encode(FromScheduler(lost))));
  CHECK(gone.reason == "it was closed");
}

TEST_CASE("a call for half a million keys and more asks for all of them at once") {
  const std::size_t count = 500'001;
  const Locate locate{std::vector<Locate::Value>(count, {1, 12, DType::f64})};
  const auto asked = std::get<Locate>(decode_to_scheduler(encode(ToScheduler(locate))));
  CHECK(asked.values.size() == count);
}

TEST_CASE("a message that was cut anywhere is refused") {
  const Bytes control = encode(ToScheduler(Locate{{{"w", 12, DType::f64}}}));
  for (std::size_t length = 0; length < control.size(); ++length) {
    const Bytes cut(control.begin(), control.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_THAT(text_of(ErrorCode::internal, [&] { decode_to_scheduler(cut); }),
               Contains("malformed message"));
  }
}

TEST_CASE("a message with bytes changed is refused or read, and never read beyond its end") {
  const Bytes good = some_contribution();
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bad = good;
    for (int change = 0; change < 3; ++change) {
      bad[random() % bad.size()] = static_cast<std::byte>(random());
    }
    try {
      decode_to_server(bad);
    } catch (const Error& error) {
      REQUIRE(error.code() == ErrorCode::internal);
    }
  }
}

TEST_CASE("elements behind a message that has none are refused") {
  Bytes pull = encode(ToServer(Pull{8, {5, 0, 1}, DType::f16, {}}));
  pull.push_back(std::byte{0});
  CHECK_THAT(text_of(ErrorCode::internal, [&] { decode_to_server(pull); }),
             Contains("elements that belong to nothing"));
}

TEST_CASE("a key longer than keys are and a piece beyond the last are refused") {
  const std::string name(Key::max_bytes + 1, 'k');
  text_of(ErrorCode::internal, [&] {
    decode_to_server(encode(ToServer(Pull{1, {name, 0, 1}, DType::f32, {}})));
  });
  text_of(ErrorCode::internal, [&] {
    decode_to_server(encode(ToServer(Pull{1, {"w", 1, 1}, DType::f32, {}})));
  });
}

TEST_CASE("a shape whose bytes cannot be counted is refused") {
  const Shape huge{std::int64_t{1} << 61};
  const Bytes pull = encode(ToServer(Pull{1, {"w", 0, 1}, DType::f64, huge}));
  CHECK_THAT(text_of(ErrorCode::internal, [&] { decode_to_server(pull); }),
             Contains("impossible shape"));
}

TEST_CASE("settings and requests for states arrive as they were sent") {
  const Compression two_bits{Encoding::two_bits, 0.25F};
  const Bytes set = encode(ToServer(SetCompression{3, two_bits}));
  CHECK(std::get<SetCompression>(decode_to_server(set)).compression == two_bits);
  const Optimizer adam{"adam", {{"beta1", 0.5}}};
  const Failure failure{ErrorCode::invalid_argument, "no such file", {}};
  const Bytes load = encode(ToServer(LoadStates{4, failure, "adam", adam}));
  const auto loaded = std::get<LoadStates>(decode_to_server(load));
  CHECK(loaded.failure == failure);
  CHECK(loaded.rule == "adam");
  CHECK(loaded.optimizer == adam);
  const Bytes none = encode(ToServer(LoadStates{.sequence = 5}));
  CHECK_FALSE(std::get<LoadStates>(decode_to_server(none)).optimizer);

  const Bytes state = encode(ToServer(PullState{6, {"w", 1, 2}}));
  CHECK(std::get<PullState>(decode_to_server(state)).piece == PieceName{"w", 1, 2});
  const Bytes optimizer = encode(ToServer(PullOptimizer{7}));
  CHECK(std::get<PullOptimizer>(decode_to_server(optimizer)).sequence == 7);
  const Bytes brought = encode(ToServer(SetState{8, {"w", 0, 1}, elements}));
  CHECK(copy_of(std::get<SetState>(decode_to_server(brought)).data) == elements);
}

TEST_CASE("how elements travel arrives with them") {
  const Bytes bytes = encode(ToServer(Contribution{.sequence = 1,
                                                   .piece = {"w", 0, 1},
                                                   .shape = {9},
                                                   .compression = {Encoding::one_bit, 0.5F},
                                                   .data = elements}));
  CHECK(std::get<Contribution>(decode_to_server(bytes)).compression ==
        Compression{Encoding::one_bit, 0.5F});
}

TEST_CASE("rows arrive as they were sent, none too, and those that no value has are refused") {
  const auto arrived = [](const std::optional<std::vector<std::int64_t>>& rows,
                          const Shape& shape) {
    const Bytes bytes = encode(ToServer(Pull{1, {"w", 0, 1}, DType::f32, shape, rows}));
    return std::get<Pull>(decode_to_server(bytes)).rows;
  };
  const std::vector<std::int64_t> some{0, 3, 4};
  const std::vector<std::int64_t> none{};
  CHECK(arrived(some, {5, 2}) == some);
  CHECK(arrived(none, {5, 2}) == none);
  CHECK_FALSE(arrived(std::nullopt, {5, 2}));
  const std::vector<std::int64_t> bad[] = {{5}, {-1}, {1, 1}, {3, 2}};
  for (const auto& rows : bad) {
    CHECK_THAT(text_of(ErrorCode::internal,
                       [&] {
                         arrived(rows, {5, 2});
                       }),
               Contains("impossible rows"));
  }
  text_of(ErrorCode::internal, [&] { arrived(none, {}); });
}

TEST_CASE("fields about staleness and whole values arrive") {
  Register worker{Role::worker, 1, 4, 2, "0.1", true, "", 0};
  worker.staleness = 3;
  CHECK(std::get<Register>(decode_to_scheduler(encode(ToScheduler(worker)))).staleness == 3);
  const Welcome welcome{1, true, {}, 3};
  CHECK(std::get<Welcome>(decode_from_scheduler(encode(FromScheduler(welcome)))).staleness == 3);
  const Locate locate{{{"w", 12, DType::f64, true}}};
  CHECK(std::get<Locate>(decode_to_scheduler(encode(ToScheduler(locate)))).values.at(0).whole);
  const Bytes all = encode(ToScheduler(LocateAll{}));
  CHECK(std::holds_alternative<LocateAll>(decode_to_scheduler(all)));
  const Located located{{}, true};
  CHECK(std::get<Located>(decode_from_scheduler(encode(FromScheduler(located)))).all);
}

TEST_CASE("a withdrawal arrives") {
  const Failure why{ErrorCode::invalid_argument, "too large", {}};
  const Bytes bytes = encode(ToServer(Withdrawal{4, {"w", 1, 2}, Kind::broadcast, why}));
  const auto said = std::get<Withdrawal>(decode_to_server(bytes));
  CHECK(said.sequence == 4);
  CHECK(said.piece == PieceName{"w", 1, 2});
  CHECK(said.kind == Kind::broadcast);
  CHECK(said.failure == why);
}

TEST_CASE("recalls of a piece and of settings arrive, with a reason only where they are given up") {
  const Failure why{ErrorCode::timeout, "too late", {1}};
  using Step = Recall::Step;
  const Bytes held = encode(ToServer(Recall{4, 3, PieceName{"w", 1, 2}, Step::hold, std::nullopt}));
  const auto holds = std::get<Recall>(decode_to_server(held));
  CHECK((holds.sequence == 4 && holds.request == 3 && holds.step == Step::hold));
  CHECK(holds.piece == PieceName{"w", 1, 2});
  CHECK_FALSE(holds.failure);
  const Bytes given_up = encode(ToServer(Recall{4, 3, std::nullopt, Step::give_up, why}));
  const auto gives_up = std::get<Recall>(decode_to_server(given_up));
  CHECK_FALSE(gives_up.piece);
  CHECK(gives_up.failure == why);
  for (const Recall& odd : {Recall{4, 3, std::nullopt, Step::give_up, std::nullopt},
                            Recall{4, 3, std::nullopt, Step::release, why}}) {
    text_of(ErrorCode::internal, [&] { decode_to_server(encode(ToServer(odd))); });
  }
}

TEST_CASE("a worker's wish to be read on arrives at the scheduler and at the server") {
  const auto up = std::get<ReadOn>(decode_to_scheduler(encode(ToScheduler(ReadOn{1, 77}))));
  CHECK((up.rank == 1 && up.sequence == 77));
  const auto down = std::get<ReadOn>(decode_from_scheduler(encode(FromScheduler(ReadOn{2, 78}))));
  CHECK((down.rank == 2 && down.sequence == 78));
}

TEST_CASE("the question for missing workers is understood, of a piece and of settings") {
  const Bytes bytes = encode(ToServer(FindMissing{4, PieceName{"w", 1, 2}}));
  const auto asked = std::get<FindMissing>(decode_to_server(bytes));
  CHECK(asked.sequence == 4);
  CHECK(asked.piece == PieceName{"w", 1, 2});
  const Bytes of_settings = encode(ToServer(FindMissing{5, {}}));
  CHECK_FALSE(std::get<FindMissing>(decode_to_server(of_settings)).piece);
  text_of(ErrorCode::internal, [&] {
    decode_to_server(encode(ToServer(FindMissing{1, PieceName{"w", 2, 2}})));
  });
}

TEST_CASE("more pieces than a value has, and a bound below nothing, are refused") {
  text_of(ErrorCode::internal, [&] {
    decode_to_server(encode(ToServer(PullState{1, {"w", 0, most_pieces + 1}})));
  });
  for (const std::uint32_t pieces : {0U, 1U, most_pieces + 1}) {
    const Bytes located = encode(FromScheduler(Located{{{"w", {{1, 0}, pieces}}}}));
    CHECK_THAT(text_of(ErrorCode::internal, [&] { decode_from_scheduler(located); }),
               Contains("pieces"));
  }
  const Placement most{"w", {{0}, most_pieces}};
  decode_from_scheduler(encode(FromScheduler(Located{{most}})));
  text_of(ErrorCode::internal, [&] {
    decode_from_scheduler(encode(FromScheduler(Located{{most, most}})));
  });
  Register worker{Role::worker, 1, 4, 2, "0.1", true, "", 0};
  worker.staleness = unbounded - 1;
  text_of(ErrorCode::internal, [&] { decode_to_scheduler(encode(ToScheduler(worker))); });
}
