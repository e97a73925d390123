#include "runtime/call_table.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tutti/error.h"

using namespace tutti;
using namespace tutti::runtime;

namespace {

std::shared_ptr<CallList> list_of(std::initializer_list<Key> keys) {
  auto list = std::make_shared<CallPool>()->take(keys.size());
  std::transform(keys.begin(), keys.end(), list->calls.begin(), [](const Key& key) {
    TensorCall call;
    call.key = key;
    return call;
  });
  return list;
}

}  // namespace

TEST_CASE("an id is used again once its call is over, and until then finds its call") {
  const auto list = list_of({"a", "b", "c"});
  CallTable table;
  const auto a = table.add(list, list->calls[0]);
  const auto b = table.add(list, list->calls[1]);
  CHECK(table.take(a).call == &list->calls[0]);
  CHECK_THROWS_AS(table.at(a), Error);
  CHECK(table.add(list, list->calls[2]) == a);
  CHECK(table.at(a).key == Key("c"));
  CHECK(table.at(b).key == Key("b"));
}

TEST_CASE("calls are told in the order of their submission, whatever their ids") {
  const auto list = list_of({"a", "b", "c"});
  CallTable table;
  const auto a = table.add(list, list->calls[0]);
  table.add(list, list->calls[1]);
  table.take(a);
  table.add(list, list->calls[2]);
  const auto entries = table.in_order();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].call->key == Key("b"));
  CHECK(entries[1].call->key == Key("c"));
}

TEST_CASE("0 is never an id, for it means no call") {
  const auto list = list_of({"a"});
  CallTable table;
  CHECK(table.empty());
  CHECK(table.add(list, list->calls[0]) != 0);
  CHECK_FALSE(table.empty());
  CHECK_THROWS_AS(table.at(0), Error);
}
