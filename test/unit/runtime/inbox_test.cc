#include "runtime/inbox.h"

#include <catch2/catch.hpp>

#include "tutti/error.h"

using namespace tutti;
using namespace tutti::runtime;

namespace {

std::vector<TensorCall> calls(std::initializer_list<const char*> keys) {
  std::vector<TensorCall> list;
  for (const char* const key : keys) list.emplace_back().key = key;
  return list;
}

}  // namespace

TEST_CASE("a list with a key in flight submits nothing of it") {
  Inbox inbox(3);
  inbox.submit(calls({"a"}));
  CHECK_THROWS_AS(inbox.submit(calls({"b", "a", "c"})), Error);
  CHECK(inbox.take().size() == 1);
  inbox.submit(calls({"b", "c"}));
  CHECK(inbox.take().size() == 2);
}

TEST_CASE("a released key may be used again") {
  Inbox inbox(3);
  inbox.submit(calls({"a"}));
  inbox.release("a");
  inbox.submit(calls({"a"}));
  CHECK(inbox.take().size() == 2);
}

TEST_CASE("a dead inbox throws what it died of and gives back what was not taken") {
  Inbox inbox(3);
  inbox.submit(calls({"a"}));
  const auto left = inbox.die(std::make_exception_ptr(Error(ErrorCode::peer_lost, "rank 3 died")));
  CHECK(left.size() == 1);
  CHECK_THROWS_WITH(inbox.submit(calls({"b"})), "rank 3 died");
  CHECK_THROWS_WITH(inbox.submit(BarrierCall{}), "rank 3 died");
}
