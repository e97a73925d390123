// Requests that a server cannot carry out: a worker's mistakes, and the machine's limits.
#include <catch2/catch.hpp>

#include "unit/narrow_addresses.h"
#include "unit/ps/server/table_job.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

TEST_CASE(
    "a worker that breaks the protocol is told, the others lose it, and it is heard no more") {
  TableJob job(3);
  job.init({0});
  job.say(0, Kind::push, {1});
  job.say(1, Kind::push, {1});
  job.next(2);
  job.say(2, Kind::push, {1});
  const std::string why = job.refusal(2);
  CHECK_THAT(why, Contains("reads no more of worker 2") && Contains("is missing"));
  REQUIRE(job.heard.size() == 3);
  for (const Heard& one : job.heard) {
    CHECK(one.failure->code == ErrorCode::internal);
    CHECK(one.failure->text == why);
    CHECK(one.failure->ranks == std::vector{2});
  }
  job.heard.clear();
  job.say(2, Kind::push, {1});
  job.next(2);
  job.pull(2, 1);
  CHECK(job.heard.empty());
  job.say(0, Kind::push, {1});
  REQUIRE(job.heard.size() == 1);
  CHECK(job.heard[0].failure->text == why);
  CHECK(job.stored(1) == Floats{0});
}

TEST_CASE("a worker that left and says more is refused once") {
  TableJob job;
  job.table().receive(1, Goodbye{});
  for (int i = 0; i < 2; ++i) {
    job.next(1);
    job.pull(1, 1);
  }
  job.refusal(1);
  CHECK(job.heard.size() == 1);
}

TEST_CASE("a refused request is not among the requests that wait") {
  TableJob job(1);
  job.next(0);
  job.pull(0, 1);
  job.refusal(0);
  CHECK(job.table().waiting_requests(0) == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a round for which there is no memory fails for all, and the next is another") {
  TableJob job;
  constexpr std::int64_t count = std::int64_t{64} << 20;
  const std::vector<std::byte> bits(count / 4);
  const auto push = [&](int worker) {
    Contribution said{.sequence = job.next(worker),
                      .piece = {"w", 0, 1},
                      .kind = Kind::pushpull,
                      .shape = {count},
                      .compression = {Encoding::two_bits, 1},
                      .data = bits,
                      .keeper = std::make_shared<int>()};
    job.table().receive(worker, said);
  };
  push(0);
  {
    const NarrowAddresses narrow(std::size_t{32} << 20);
    push(1);
  }
  CHECK_THAT(job.common_failure(ErrorCode::internal),
             Contains("key 'w'") && Contains("not enough memory for a tensor"));
  job.heard.clear();
  job.say(0, Kind::pushpull, {1});
  job.say(1, Kind::pushpull, {2});
  REQUIRE(job.heard.size() == 2);
  CHECK(job.heard[1].values == Floats{3});
}
#endif
