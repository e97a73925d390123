#include "p2p/endpoint.h"

#include <catch2/catch.hpp>

#include "office.h"

using namespace tutti;
using namespace tutti::p2p;
using Catch::Contains;
using std::chrono::seconds;
using tutti::p2p::test::large;
using tutti::p2p::test::Office;
using tutti::p2p::test::small;

TEST_CASE("a send meets the receive that was called before it, and the one that is called later") {
  Office office(2, seconds(10), GENERATE(small, large));
  const TransferId early = office.receive(1, 0);
  const TransferId first = office.send(0, 1);
  const TransferId second = office.send(0, 1);
  office.deliver_all();
  CHECK(office.is_good(first));
  CHECK(office.is_good(early));
  CHECK(office.got(early) == first);
  CHECK_FALSE(office.is_over(second));
  const TransferId late = office.receive(1, 0);
  office.deliver_all();
  CHECK(office.is_good(second));
  CHECK(office.got(late) == second);
}

TEST_CASE("a send is not over before the receiver has its elements") {
  Office office(2, seconds(10), GENERATE(small, large));
  const TransferId send = office.send(0, 1);
  const TransferId receive = office.receive(1, 0);
  std::mt19937_64 random;
  while (!office.is_over(receive) && office.deliver(random)) CHECK_FALSE(office.is_over(send));
  office.deliver_all();
  CHECK(office.is_good(send));
}

TEST_CASE("a receive from any rank takes the first send of its tag, and says whose that was") {
  Office office(3, seconds(10), GENERATE(small, large));
  const TransferId other = office.send(1, 0, 5);
  office.deliver_all();
  const TransferId from_two = office.send(2, 0, 7);
  office.deliver_all();
  const TransferId from_one = office.send(1, 0, 7);
  office.deliver_all();
  const TransferId any = office.receive(0, any_peer, 7);
  office.deliver_all();
  CHECK(office.got(any) == from_two);
  CHECK(office.end(any).peer == 2);
  CHECK_FALSE(office.is_over(from_one));
  CHECK_FALSE(office.is_over(other));
}

TEST_CASE("two ranks that disagree about a tensor both get a mismatch, and their next call works") {
  const std::uint64_t sent = GENERATE(std::uint64_t{6}, large);
  const bool comes_later = GENERATE(false, true);
  Office office(2, seconds(10));
  const TransferId send = office.send(1, 0, 3, sent, DType::f32);
  if (comes_later) office.deliver_all();
  const TransferId receive = office.receive(0, 1, 3, 4, DType::f64);
  office.deliver_all();
  for (const TransferId call : {send, receive}) {
    CHECK(office.code(call) == ErrorCode::mismatch);
    CHECK_THAT(office.end(call).error->what(),
               Contains(std::to_string(sent) + " elements of f32") &&
                   Contains("4 elements of f64") && Contains("tag 3"));
    CHECK(office.end(call).error->ranks().front() == 1);
  }
  const TransferId again = office.send(1, 0, 3);
  const TransferId right = office.receive(0, 1, 3);
  office.deliver_all();
  CHECK(office.is_good(again));
  CHECK(office.is_good(right));
}

TEST_CASE("elements that have stopped moving for the time limit are an error of both ranks") {
  Office office(2, seconds(100), large);
  const TransferId send = office.send(0, 1);
  office.pass(seconds(50));
  const TransferId receive = office.receive(1, 0);
  std::mt19937_64 random;
  for (int frame = 0; frame < 3; ++frame) REQUIRE(office.deliver(random));
  office.pass(seconds(90));
  CHECK(office.endpoint(0).next_tick() == seconds(150));
  office.move_part(0, 1);
  office.pass(seconds(90));
  for (const int rank : {0, 1}) {
    CHECK_NOTHROW(office.endpoint(rank).check_transfers());
    CHECK(office.endpoint(rank).next_tick() == seconds(240));
  }
  office.pass(seconds(10));
  CHECK_FALSE(office.is_over(send));
  CHECK_FALSE(office.is_over(receive));
  for (const int rank : {0, 1}) {
    INFO("rank " << rank);
    try {
      office.endpoint(rank).check_transfers();
      FAIL_CHECK("no error came");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::timeout);
      CHECK(error.ranks().front() == 1 - rank);
      CHECK_THAT(error.what(),
                 Contains(rank == 0 ? "send of 4097 elements" : "recv of 4097 elements") &&
                     Contains("no element has moved for 100 s"));
    }
  }
}

TEST_CASE("transfers that wait for another one's elements are as late as that") {
  Office office(2, seconds(100), large);
  office.receive(1, 0);
  office.receive(1, 0);
  office.send(0, 1);
  office.send(0, 1);
  std::mt19937_64 random;
  for (int frame = 0; frame < 6; ++frame) REQUIRE(office.deliver(random));
  for (int part = 0; part < 5; ++part) {
    office.pass(seconds(60));
    office.move_part(0, 1);
    CHECK_NOTHROW(office.endpoint(0).check_transfers());
    CHECK_NOTHROW(office.endpoint(1).check_transfers());
  }
  office.pass(seconds(100));
  CHECK_THROWS_AS(office.endpoint(0).check_transfers(), Error);
  CHECK_THROWS_AS(office.endpoint(1).check_transfers(), Error);
}

TEST_CASE("elements may stand still for a minute, however short the time limit is") {
  Office office(2, seconds(1), large);
  office.receive(1, 0);
  office.send(0, 1);
  std::mt19937_64 random;
  for (int frame = 0; frame < 3; ++frame) REQUIRE(office.deliver(random));
  office.pass(seconds(59));
  CHECK_NOTHROW(office.endpoint(1).check_transfers());
  CHECK(office.endpoint(1).next_tick() == seconds(60));
  office.pass(seconds(1));
  CHECK_THROWS_AS(office.endpoint(1).check_transfers(), Error);
}

TEST_CASE("a rank that closes ends the calls that have not met, and waits for those that have") {
  Office office(3, seconds(10), large);
  const TransferId lonely = office.send(0, 1, 1);
  const TransferId awaited = office.receive(2, 0, 9);
  const TransferId send = office.send(0, 1);
  const TransferId receive = office.receive(1, 0);
  std::mt19937_64 random;
  while (office.endpoint(0).describe().find("moves") == std::string::npos) {
    REQUIRE(office.deliver(random));
  }
  office.close(0);
  CHECK(office.code(lonely) == ErrorCode::aborted);
  CHECK_THAT(office.end(lonely).error->what(), Contains("rank 0 has closed this store"));
  CHECK_FALSE(office.endpoint(0).has_left());
  office.deliver_all();
  CHECK(office.is_good(send));
  CHECK(office.is_good(receive));
  CHECK(office.endpoint(0).has_left());
  CHECK_FALSE(office.is_over(awaited));
  // Rank 0 has never spoken to rank 2, which hears of its end in another way.
  CHECK_FALSE(office.endpoint(2).has_heard(0));
  office.depart(2, 0);
  CHECK(office.code(awaited) == ErrorCode::aborted);
  CHECK_THAT(office.end(awaited).error->what(), Contains("rank 0 has left the store"));
  CHECK(office.endpoint(1).has_heard(0));
  CHECK(office.code(office.send(1, 0)) == ErrorCode::aborted);
}

TEST_CASE("frames of a rank whose end was told before they came mean nothing") {
  Office office(2, seconds(10), GENERATE(small, large));
  const TransferId send = office.send(1, 0);
  const TransferId receive = office.receive(0, 1);
  office.close(1);
  office.depart(0, 1);
  office.deliver_all();
  office.pass(seconds(1));
  CHECK(office.code(send) == ErrorCode::aborted);
  CHECK(office.code(receive) == ErrorCode::aborted);
  CHECK(office.endpoint(0).empty());
}

TEST_CASE("a receive from any rank ends once every other rank has left") {
  Office office(3, seconds(10), GENERATE(small, large));
  const TransferId any = office.receive(0, any_peer);
  office.depart(0, 1);
  CHECK_FALSE(office.is_over(any));
  office.depart(0, 2);
  CHECK(office.code(any) == ErrorCode::aborted);
  CHECK(office.code(office.receive(0, any_peer)) == ErrorCode::aborted);
}
