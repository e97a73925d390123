// Small sends, whose elements go along with their announcement.
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

/// The elements of `EagerSends::largest` bytes.
constexpr std::uint64_t largest = EagerSends::largest / 4;
constexpr int most_sends = EagerSends::most_bytes / EagerSends::largest;

/// How many frames and transfers must arrive until the send is over.
int hops_of(Office& office, TransferId send) {
  std::mt19937_64 random;
  int hops = 0;
  while (!office.is_over(send) && office.deliver(random)) ++hops;
  REQUIRE(office.is_good(send));
  return hops;
}

int hops_of_send_and_receive(Office& office, std::uint64_t count) {
  office.receive(1, 0, 0, count);
  return hops_of(office, office.send(0, 1, 0, count));
}

}  // namespace

TEST_CASE("a small send is over after two hops, whichever call comes first") {
  Office office(2, seconds(10));
  CHECK(hops_of_send_and_receive(office, 0) == 2);
  CHECK(hops_of_send_and_receive(office, small) == 2);
  CHECK(hops_of_send_and_receive(office, largest) == 2);
  CHECK(hops_of_send_and_receive(office, large) == 5);
  const TransferId send = office.send(0, 1);
  office.deliver_all();
  CHECK_FALSE(office.is_over(send));
  CHECK(office.endpoint(1).kept_bytes() > 0);
  const TransferId receive = office.receive(1, 0);
  CHECK(office.is_good(receive));
  CHECK(office.got(receive) == send);
  CHECK(office.endpoint(1).kept_bytes() == 0);
  CHECK(hops_of(office, send) == 1);
}

TEST_CASE("no more bytes than a carrier has room for are sent before their receives come") {
  Office office(3, seconds(10));
  for (int i = 0; i < most_sends; ++i) office.send(0, 1, 5, largest);
  const TransferId other = office.send(0, 2, 5, largest);
  office.deliver_all();
  CHECK(office.endpoint(1).kept_bytes() == EagerSends::most_bytes);
  CHECK(office.endpoint(2).kept_bytes() == EagerSends::largest);
  CHECK(hops_of_send_and_receive(office, small) == 5);
  office.receive(1, 0, 5, largest);
  office.deliver_all();
  CHECK(hops_of_send_and_receive(office, largest) == 2);
  CHECK_FALSE(office.is_over(other));
}

TEST_CASE("small sends that are refused or given up on either side make room again") {
  Office office(2, seconds(10));
  const auto fill = [&](int tag) {
    for (int i = 0; i < most_sends; ++i) office.send(0, 1, tag, largest);
    office.deliver_all();
  };
  fill(1);
  for (int i = 0; i < most_sends; ++i) office.receive(1, 0, 1, small);
  office.deliver_all();
  fill(2);
  CHECK(office.endpoint(1).kept_bytes() == EagerSends::most_bytes);
  office.pass(seconds(10));
  // There is no room until the receiver says that it has dropped the elements.
  office.send(0, 1, 3, largest);
  office.deliver_all();
  CHECK(office.endpoint(1).kept_bytes() == 0);
  for (int i = 0; i < most_sends; ++i) office.receive(1, 0, 4, largest);
  office.pass(seconds(10));
  fill(4);
  fill(5);
  CHECK(office.endpoint(1).kept_bytes() == EagerSends::most_bytes);
}

TEST_CASE("a receive that comes late for a small send asks whether the send still stands") {
  Office office(2, seconds(10), largest);
  const TransferId send = office.send(0, 1);
  for (int i = 1; i < most_sends; ++i) office.send(0, 1);
  office.deliver_all();
  office.pass(seconds(6));
  const TransferId receive = office.receive(1, 0);
  for (int i = 1; i < most_sends; ++i) office.receive(1, 0);
  CHECK_FALSE(office.is_over(receive));
  const bool in_time = GENERATE(true, false);
  office.pass(seconds(in_time ? 3 : 4));
  office.deliver_all();
  for (const TransferId call : {send, receive}) {
    REQUIRE(office.is_over(call));
    CHECK(office.is_good(call) == in_time);
  }
  if (!in_time) CHECK(office.code(receive) == ErrorCode::timeout);
  if (in_time) CHECK(office.got(receive) == send);
  for (int i = 0; i < most_sends; ++i) office.send(0, 1);
  office.deliver_all();
  CHECK(office.endpoint(1).kept_bytes() == EagerSends::most_bytes);
}

TEST_CASE("a receive that has asked for a small send may get another one's elements instead") {
  Office office(3, seconds(10), largest);
  for (int i = 0; i < most_sends; ++i) office.send(2, 0, 9);
  office.send(1, 0);
  office.deliver_all();
  office.pass(seconds(6));
  const TransferId receive = office.receive(0, any_peer);
  office.close(1);
  const TransferId announced = office.send(2, 0);
  office.deliver_all();
  REQUIRE(office.is_good(receive));
  CHECK(office.got(receive) == announced);
  CHECK(office.is_good(announced));
}

TEST_CASE("a small send goes behind larger elements that move already, and waits for its receive") {
  Office office(2, seconds(10));
  const TransferId before = office.send(0, 1, 1, large);
  office.receive(1, 0, 1, large);
  std::mt19937_64 random;
  while (office.endpoint(0).describe().find("moves") == std::string::npos) {
    REQUIRE(office.deliver(random));
  }
  const TransferId send = office.send(0, 1);
  office.deliver_all();
  CHECK(office.is_good(before));
  CHECK(office.endpoint(1).kept_bytes() == 0);
  office.receive(1, 0);
  CHECK(hops_of(office, send) == 4);
  CHECK(hops_of_send_and_receive(office, small) == 2);
}

TEST_CASE("a rank that closes learns whether its small sends have met, and ends them alike") {
  Office office(2, seconds(10));
  const TransferId met = office.send(0, 1, 1);
  const TransferId lonely = office.send(0, 1, 2);
  const TransferId received = office.receive(1, 0, 1);
  const TransferId awaited = office.receive(1, 0, 3);
  std::mt19937_64 random;
  REQUIRE(office.deliver(random));
  CHECK(office.is_good(received));
  office.close(0);
  CHECK_FALSE(office.endpoint(0).has_left());
  office.deliver_all();
  CHECK(office.is_good(met));
  CHECK(office.code(lonely) == ErrorCode::aborted);
  CHECK_THAT(office.end(lonely).error->what(), Contains("rank 0 has closed this store"));
  CHECK(office.endpoint(0).has_left());
  CHECK(office.code(awaited) == ErrorCode::aborted);
  CHECK(office.endpoint(1).kept_bytes() == 0);
}

TEST_CASE("a rank that closes does not wait for long for one that does not listen") {
  Office office(2, seconds(10));
  const TransferId send = office.send(0, 1);
  office.close(0);
  CHECK(office.endpoint(0).next_tick() == seconds(1));
  office.pass(seconds(1));
  CHECK(office.code(send) == ErrorCode::aborted);
  CHECK(office.endpoint(0).has_left());
}

TEST_CASE("a rank that leaves takes along the elements that nobody has received") {
  Office office(2, seconds(10));
  office.send(0, 1);
  office.deliver_all();
  office.depart(1, 0);
  CHECK(office.endpoint(1).kept_bytes() == 0);
}
