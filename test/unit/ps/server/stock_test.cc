// Values of an earlier job, from the states of its servers, on their way to the servers of another.
#include "ps/server/stock.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <utility>

#include "tutti/shard.h"
#include "unit/errors.h"
#include "unit/folder.h"
#include "unit/ps/server/keeper.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

TEST_CASE("values and optimizer states are spread over another number of servers") {
  const Folder folder;
  const Floats all{0, 1, 2, 3, 4, 5, 6};
  for (int rank = 0; rank < 2; ++rank) {
    Keeper keeper(folder.path(), {.job = 7, .rank = rank, .servers = 2, .workers = 1});
    const Shard mine = shard(7, rank, 2);
    const PieceName piece{"w", static_cast<std::uint32_t>(rank), 2};
    const auto part = [&](const Floats& whole) {
      return Floats(whole.begin() + static_cast<std::ptrdiff_t>(mine.begin),
                    whole.begin() + static_cast<std::ptrdiff_t>(mine.end));
    };
    keeper.say(0, Kind::init, part(all), piece, 7);
    keeper.receive(0, SetOptimizer{.optimizer = momentum});
    keeper.say(0, Kind::push, part(all), piece, 7);
  }
  const Stock stock = Stock::read(folder.path());
  CHECK(stock.optimizer() == momentum);
  REQUIRE(stock.question().values.size() == 1);
  CHECK(stock.question().values[0].count == 7);
  const Located located{{{"w", {{1, 0, 1}, 3}}}};
  std::size_t elements = 0;
  for (int server : {0, 1}) {
    for (const Table::PieceContent& one : stock.pieces_on(server, located)) {
      const Shard part = shard(7, static_cast<int>(one.name.index), 3);
      REQUIRE(one.content.elements.count() == part.count());
      REQUIRE(one.content.state);
      Floats velocity(part.count());
      std::memcpy(velocity.data(), one.content.state->slots.at(0).data(), part.count() * 4);
      for (std::size_t i = 0; i < part.count(); ++i) {
        CHECK(one.content.elements.as<float>()[i] == 0);
        CHECK(velocity[i] == -all[part.begin + i]);
      }
      elements += part.count();
    }
  }
  CHECK(elements == 7);
}

TEST_CASE("a message that does not say where restored values are to be is refused") {
  const Folder folder;
  {
    Keeper keeper(folder.path(), {.job = 7, .rank = 0, .servers = 1, .workers = 1});
    keeper.say(0, Kind::init, {1, 2});
  }
  const Stock stock = Stock::read(folder.path());
  const Placement fine{"w", {{0, 1}, 4}};
  CHECK(stock.pieces_on(0, Located{{fine}}).size() == 2);
  const std::pair<Located, std::string> wrong[] = {
      {{}, "1 values, key 'w' among them, and answers with 0"},
      {{{fine, fine}}, "and answers with 2"},
      {{{{"v", {{0}, 1}}}}, "key 'w' with 2 elements, and answers with key 'v' in 1 pieces"},
      {{{{"w", {{0, 1}, 5}}}}, "and answers with key 'w' in 5 pieces"}};
  for (const auto& [answer, text] : wrong) {
    CHECK_THAT(text_of(ErrorCode::internal, [&, &asked = answer] { stock.pieces_on(0, asked); }),
               Contains(text));
  }
}

TEST_CASE("a piece without an update yet is restored with the optimizer's initial state") {
  const Folder folder;
  for (const int rank : {0, 1}) {
    Keeper keeper(folder.path(), {.job = 7, .rank = rank, .servers = 2, .workers = 1});
    const PieceName piece{"w", static_cast<std::uint32_t>(rank), 2};
    keeper.say(0, Kind::init, {1, 2}, piece, 4);
    keeper.receive(0, SetOptimizer{.optimizer = momentum});
    if (rank == 0) keeper.say(0, Kind::push, {1, 2}, piece, 4);
  }
  const Located located{{{"w", {{0}, 1}}}};
  const auto pieces = Stock::read(folder.path()).pieces_on(0, located);
  REQUIRE(pieces.size() == 1);
  CHECK(pieces[0].content.elements.as<float>()[0] == 0);
  CHECK(pieces[0].content.elements.as<float>()[3] == 2);
  REQUIRE(pieces[0].content.state);
  Floats velocity(4);
  REQUIRE(pieces[0].content.state->slots.at(0).size() == 16);
  std::memcpy(velocity.data(), pieces[0].content.state->slots[0].data(), 16);
  CHECK(velocity == Floats{-1, -2, 0, 0});
}

TEST_CASE("a piece with a state of an earlier optimizer is restored with the initial state") {
  const Folder folder;
  const Optimizer adam{"adam", {}};
  for (const int rank : {0, 1}) {
    Keeper keeper(folder.path(), {.job = 7, .rank = rank, .servers = 2, .workers = 1});
    const PieceName piece{"w", static_cast<std::uint32_t>(rank), 2};
    keeper.say(0, Kind::init, {1, 2}, piece, 4);
    keeper.receive(0, SetOptimizer{.optimizer = momentum});
    if (rank == 1) keeper.receive(0, SetOptimizer{.optimizer = adam});
    keeper.say(0, Kind::push, {1, 2}, piece, 4);
  }
  const Stock stock = Stock::read(folder.path());
  CHECK(stock.optimizer() == adam);
  const auto pieces = stock.pieces_on(0, {{{"w", {{0}, 1}}}});
  REQUIRE(pieces.size() == 1);
  REQUIRE(pieces[0].content.state);
  const auto& slots = pieces[0].content.state->slots;
  REQUIRE(slots.size() == 2);
  for (const auto& slot : slots) {
    Floats mean(4);
    REQUIRE(slot.size() == 16);
    std::memcpy(mean.data(), slot.data(), 16);
    CHECK((mean[0] == 0 && mean[1] == 0));
    CHECK((mean[2] != 0 && mean[3] != 0));
  }
}

TEST_CASE("a key of which only some pieces are there is not restored, and all others are") {
  const Folder folder;
  for (const int rank : {0, 1}) {
    Keeper keeper(folder.path(), {.job = 7, .rank = rank, .servers = 2, .workers = 1});
    const auto index = static_cast<std::uint32_t>(rank);
    keeper.say(0, Kind::init, {1, 2}, {"v", index, 2}, 4);
    if (rank == 0) keeper.say(0, Kind::init, {1, 2}, {"w", index, 2}, 4);
  }
  const Stock stock = Stock::read(folder.path());
  REQUIRE(stock.question().values.size() == 1);
  CHECK(stock.question().values[0].key == Key("v"));
}

TEST_CASE("a state that lacks a server's part is not restored") {
  const Folder folder;
  { const Keeper keeper(folder.path(), {.job = 7, .rank = 1, .servers = 2, .workers = 1}); }
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { Stock::read(folder.path()); }),
             Contains("that of server 0 of 2 is missing"));
  { const Keeper keeper(folder.path(), {.job = 8, .rank = 0, .servers = 2, .workers = 1}); }
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { Stock::read(folder.path()); }),
             Contains("of another job"));
}
