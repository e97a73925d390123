#include "runtime/agreement.h"

#include <catch2/catch.hpp>

#include "tutti/error.h"

using namespace tutti;
using namespace tutti::runtime;
using Catch::Contains;

TEST_CASE("ranks with equal facts agree") {
  const Facts facts = facts_to_agree_on(Options{});
  check_equal(facts, {pack(facts), pack(facts), pack(facts)});
}

TEST_CASE("a fact that differs is named with each value and the ranks that have it") {
  Options odd;
  odd.part_bytes = 77;
  const Facts facts = facts_to_agree_on(Options{});
  const Facts other = facts_to_agree_on(odd);
  try {
    check_equal(facts, {pack(facts), pack(facts), pack(other), pack(facts)});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK_THAT(error.what(), Contains("TUTTI_PART_BYTES") && Contains("77 on rank 2") &&
                                 Contains("auto on ranks 0-1, 3"));
    CHECK_THAT(error.what(), !Contains("FUSION"));
  }
}

TEST_CASE("an option with a newline forges no line of its own") {
  Options odd;
  odd.timeline = "a\nrank 7 is well";
  const Facts facts = facts_to_agree_on(Options{});
  CHECK_THROWS_WITH(
      check_equal(facts, {pack(facts), pack(facts_to_agree_on(odd))}),
      Contains("TUTTI_TIMELINE") && Contains("a\\nrank 7 is well on rank 1") && !Contains("\n"));
}

TEST_CASE("ranks whose machines would round differently are told so") {
  Facts other = facts_to_agree_on(Options{});
  for (auto& [name, value] : other) {
    if (name == "element kernels") value = "another level";
  }
  const Facts facts = facts_to_agree_on(Options{});
  CHECK_THROWS_WITH(check_equal(facts, {pack(facts), pack(other)}),
                    Contains("element kernels") && Contains("another level on rank 1"));
}
