// Ranks that run different versions of the library.
#include <catch2/catch.hpp>

#include "runtime/agreement.h"
#include "thread_world.h"
#include "tutti/error.h"
#include "tutti/version.h"

using namespace tutti;
using namespace tutti::runtime;
using Catch::Contains;

namespace {

/// The errors of `size` ranks that make a session while rank 1 sends `words` when the versions are
/// compared.
std::vector<Error> told(int size, const std::string& words) {
  ThreadWorld meeting(size);
  std::vector<Error> errors(static_cast<std::size_t>(size), Error(ErrorCode::internal, "no error"));
  std::vector<std::thread> ranks;
  ranks.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      World world = meeting.rank(rank);
      if (rank == 1) {
        world.all_gather = [gather = world.all_gather, &words](const std::string& mine,
                                                               const std::string& waiting_for) {
          static_cast<void>(mine);
          return gather(words, waiting_for);
        };
      }
      try {
        const Session session(std::move(world), Options{});
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(rank)] = error;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return errors;
}

}  // namespace

TEST_CASE(
    "a rank of another version fails create on every rank, with both versions and the ranks") {
  Facts facts = facts_to_agree_on(Options{});
  for (auto& [name, value] : facts) {
    if (name == "tutti version") value = "99.1.2";
  }
  for (const Error& error : told(3, pack(facts))) {
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK_THAT(error.what(), Contains("version") && Contains("99.1.2 on rank 1") &&
                                 Contains(std::string(version()) + " on ranks 0, 2"));
  }
}

TEST_CASE("a rank of a version with other options is told apart, too") {
  Facts facts = facts_to_agree_on(Options{});
  facts.insert(facts.begin() + 1, {"an option to come", "7"});
  facts.front().second = "99.1.2";
  for (const Error& error : told(2, pack(facts))) {
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK_THAT(error.what(), Contains("99.1.2 on rank 1"));
  }
}

TEST_CASE("a rank whose options nobody can read is named on every rank") {
  for (const char* const words : {"", "\x01\x02", "{}", "[[1, 2]]"}) {
    for (const Error& error : told(3, words)) {
      CHECK(error.code() == ErrorCode::mismatch);
      CHECK_THAT(error.what(),
                 Contains("rank 1 sent") && Contains(version()) && Contains("version"));
    }
  }
}
