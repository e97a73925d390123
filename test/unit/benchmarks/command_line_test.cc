#include "benchmarks/command_line.h"

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/allreduce/settings.h"

using namespace tutti;

namespace {

struct Line {
  int steps = 0;
  bool replay = true;
};

/// Empty: nothing was wrong.
std::string complaint(std::vector<const char*> words, Line& line) {
  CLI::App app;
  app.add_option("--steps", line.steps);
  app.add_flag("--replay,!--no-replay", line.replay);
  words.insert(words.begin(), "program");
  try {
    bench::parse(app, static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    CHECK(error.get_exit_code() != 0);
    return error.what();
  }
  return {};
}

std::string complaint(std::vector<const char*> words) {
  Line line;
  return complaint(std::move(words), line);
}

}  // namespace

TEST_CASE("a misspelt option is named with the one that was meant, its value left out") {
  CHECK(complaint({"--stpes=5"}) ==
        "unknown option '--stpes', did you mean '--steps'? (--help lists all)");
  CHECK(complaint({"--step"}) ==
        "unknown option '--step', did you mean '--steps'? (--help lists all)");
  CHECK(complaint({"--no-repaly"}) ==
        "unknown option '--no-repaly', did you mean '--no-replay'? (--help lists all)");
  CHECK(complaint({"--hepl"}) ==
        "unknown option '--hepl', did you mean '--help'? (--help lists all)");
}

TEST_CASE("an option like no other is named alone") {
  CHECK(complaint({"--something-else"}) == "unknown option '--something-else' (--help lists all)");
}

TEST_CASE("a word that belongs to no option is named whole") {
  CHECK(complaint({"steps=5"}) == "unexpected word 'steps=5' (--help lists all)");
}

TEST_CASE("all that is wrong is said at once, in the order of the line") {
  CHECK(complaint({"--stpes", "5", "--steps", "6", "more", "--something-else=1"}) ==
        "unknown option '--stpes', did you mean '--steps'?; unexpected word '5'; unexpected word "
        "'more'; unknown option '--something-else' (--help lists all)");
}

TEST_CASE("what is right is read") {
  Line line;
  CHECK(complaint({"--steps", "5", "--no-replay"}, line).empty());
  CHECK(line.steps == 5);
  CHECK_FALSE(line.replay);
}

TEST_CASE("allreduce_bench refuses a misspelt option, and measures nothing else instead") {
  const std::vector<const char*> words{"allreduce_bench", "--max-byte", "1M"};
  bench::Settings settings;
  const auto status =
      bench::parse(static_cast<int>(words.size()), words.data(), 2, false, settings);
  REQUIRE(status.has_value());
  CHECK(*status != 0);
}
