// Calls that end before their counterparts come.
#include <catch2/catch.hpp>

#include "office.h"

using namespace tutti;
using namespace tutti::p2p;
using Catch::Contains;
using std::chrono::seconds;
using tutti::p2p::test::large;
using tutti::p2p::test::Office;
using tutti::p2p::test::small;

namespace {

/// The call ended because its counterpart, which this other rank made, had been given up.
void check_expired(const Office& office, TransferId call, int other,
                   const std::string& counterpart) {
  INFO("call " << call);
  REQUIRE(office.is_over(call));
  CHECK(office.code(call) == ErrorCode::timeout);
  CHECK(office.end(call).error->ranks().front() == other);
  CHECK_THAT(office.end(call).error->what(),
             Contains("rank " + std::to_string(other) + " gave up the " + counterpart) &&
                 Contains("make their calls again"));
}

/// The next send and receive meet.
void check_next(Office& office, int from, int to, int tag = 0) {
  const TransferId send = office.send(from, to, tag);
  const TransferId receive = office.receive(to, from, tag);
  office.deliver_all();
  REQUIRE(office.is_good(receive));
  CHECK(office.got(receive) == send);
  CHECK(office.is_good(send));
}

}  // namespace

TEST_CASE("a call that the other rank does not answer times out and names that rank") {
  Office office(2, seconds(10), GENERATE(small, large));
  const TransferId send = office.send(0, 1);
  office.deliver_all();
  office.pass(seconds(9));
  const TransferId receive = office.receive(0, 1);
  CHECK_FALSE(office.is_over(send));
  CHECK(office.endpoint(0).next_tick() == seconds(10));
  office.pass(seconds(1));
  CHECK(office.code(send) == ErrorCode::timeout);
  CHECK_THAT(office.end(send).error->what(), Contains("rank 1 did not make the recv"));
  CHECK(office.end(send).error->ranks().front() == 1);
  CHECK_FALSE(office.is_over(receive));
  office.pass(seconds(9));
  CHECK(office.code(receive) == ErrorCode::timeout);
  CHECK_THAT(office.end(receive).error->what(), Contains("rank 1 did not make the send"));
  CHECK_FALSE(office.endpoint(0).next_tick());
}

TEST_CASE(
    "a receive that comes after its send was given up ends with it, and takes no later send") {
  Office office(2, seconds(10), GENERATE(small, large));
  const TransferId send = office.send(0, 1);
  office.pass(seconds(10));
  const TransferId next = office.send(0, 1);
  office.deliver_all();
  CHECK(office.code(send) == ErrorCode::timeout);
  check_expired(office, office.receive(1, 0), 0, "send");
  CHECK_FALSE(office.is_over(next));
  const TransferId receive = office.receive(1, 0);
  office.deliver_all();
  CHECK(office.is_good(next));
  CHECK(office.got(receive) == next);
}

TEST_CASE("a send that comes after its receive was given up ends with it, and takes no later one") {
  Office office(2, seconds(10), GENERATE(small, large));
  const TransferId receive = office.receive(1, 0);
  office.pass(seconds(10));
  const TransferId next = office.receive(1, 0);
  CHECK(office.code(receive) == ErrorCode::timeout);
  const TransferId send = office.send(0, 1);
  office.deliver_all();
  check_expired(office, send, 1, "recv");
  CHECK_FALSE(office.is_over(next));
  const TransferId second = office.send(0, 1);
  office.deliver_all();
  CHECK(office.is_good(second));
  CHECK(office.got(next) == second);
}

TEST_CASE("a receive whose send is given up while the answer travels ends with it") {
  Office office(2, seconds(10), GENERATE(small, large));
  const TransferId send = office.send(0, 1);
  std::mt19937_64 random;
  REQUIRE(office.deliver(random));
  office.pass(seconds(6));
  const TransferId receive = office.receive(1, 0);
  office.pass(seconds(4));
  office.deliver_all();
  CHECK(office.code(send) == ErrorCode::timeout);
  check_expired(office, receive, 0, "send");
  check_next(office, 0, 1);
}

TEST_CASE("a send and a receive that are given up before the frame arrives take each other") {
  Office office(2, seconds(10), GENERATE(small, large));
  const TransferId send = office.send(0, 1);
  const TransferId receive = office.receive(1, 0);
  office.pass(seconds(10));
  office.deliver_all();
  CHECK(office.code(send) == ErrorCode::timeout);
  CHECK(office.code(receive) == ErrorCode::timeout);
  check_next(office, 0, 1);
}

TEST_CASE("calls that were given up end as many of the same rank and tag, and no others") {
  Office office(3, seconds(10), GENERATE(small, large));
  for (int i = 0; i < 3; ++i) office.send(0, 1, 7);
  for (int i = 0; i < 2; ++i) office.receive(0, 2, 7);
  office.pass(seconds(10));
  office.deliver_all();
  check_next(office, 0, 1, 8);
  check_next(office, 2, 1, 7);
  check_next(office, 0, 2, 7);
  check_next(office, 1, 0, 7);
  for (int i = 0; i < 3; ++i) check_expired(office, office.receive(1, 0, 7), 0, "send");
  check_next(office, 0, 1, 7);
  for (int i = 0; i < 2; ++i) {
    const TransferId send = office.send(2, 0, 7);
    office.deliver_all();
    check_expired(office, send, 0, "recv");
  }
  check_next(office, 2, 0, 7);
}

TEST_CASE("a receive from any rank belongs to a send that was given up before it takes another") {
  Office office(3, seconds(10), GENERATE(small, large));
  office.send(1, 0, 7);
  office.pass(seconds(10));
  const TransferId other = office.send(2, 0, 7);
  office.deliver_all();
  CHECK_FALSE(office.is_over(office.receive(0, any_peer, 6)));
  check_expired(office, office.receive(0, any_peer, 7), 1, "send");
  const TransferId next = office.receive(0, any_peer, 7);
  office.deliver_all();
  CHECK(office.is_good(other));
  CHECK(office.got(next) == other);
}

TEST_CASE("a receive from any rank that was given up ends the next send of its tag alone") {
  Office office(3, seconds(10), GENERATE(small, large));
  office.receive(0, any_peer, 7);
  office.pass(seconds(10));
  check_next(office, 2, 0, 8);
  const TransferId send = office.send(2, 0, 7);
  office.deliver_all();
  check_expired(office, send, 0, "recv");
  check_next(office, 1, 0, 7);
}

TEST_CASE("a rank that leaves takes along what it gave up and what was given up for it") {
  Office office(3, seconds(10), GENERATE(small, large));
  office.send(1, 0, 7);
  office.receive(0, 1, 7);
  office.receive(0, 1, 7);
  office.send(1, 0, 9);
  office.pass(seconds(10));
  office.close(1);
  office.deliver_all();
  CHECK(office.code(office.receive(0, 1, 9)) == ErrorCode::aborted);
  const TransferId any = office.receive(0, any_peer, 9);
  const TransferId send = office.send(2, 0, 9);
  office.deliver_all();
  REQUIRE(office.is_good(any));
  CHECK(office.got(any) == send);
}
