#include "command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Line {
  int steps = 0;
  bool replay = true;
  double lr = 0;
  std::string network;
  std::size_t bytes = 0;
};

/// Empty: nothing was wrong.
std::string complaint(std::vector<const char*> words, Line& line) {
  CLI::App app;
  app.add_option("--steps", line.steps);
  app.add_option("--lr", line.lr)->check(command_line::between(0, 1.5));
  app.add_option("--network", line.network)->check(command_line::one_of({"mlp", "lenet"}));
  app.add_option("--bytes", line.bytes)->transform(command_line::size());
  app.add_flag("--replay,!--no-replay", line.replay);
  words.insert(words.begin(), "program");
  try {
    command_line::parse(app, static_cast<int>(words.size()), words.data());
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

TEST_CASE("an error is one line, whatever the words hold") {
  for (const auto& words : std::vector<std::vector<const char*>>{{"--steps=1\nall well"},
                                                                 {"--steps", "1\nall well"},
                                                                 {"--no\nsuch"},
                                                                 {"word\nall well"}}) {
    const std::string said = complaint(words);
    INFO(said);
    CHECK_FALSE(said.empty());
    CHECK(said.find('\n') == std::string::npos);
    CHECK(said.find("\\n") != std::string::npos);
  }
  const std::runtime_error error("cannot write a\nb: why");
  CHECK(command_line::text_of(error) == "cannot write a\\nb: why");
}

TEST_CASE("a misspelt option is named with the one that was meant, its value left out") {
  CHECK(complaint({"--stpes=5"}) ==
        "unknown option '--stpes', did you mean '--steps'? (--help lists all)");
  CHECK(complaint({"--step"}) ==
        "unknown option '--step', did you mean '--steps'? (--help lists all)");
  CHECK(complaint({"--no-repaly"}) ==
        "unknown option '--no-repaly', did you mean '--no-replay'? (--help lists all)");
  CHECK(complaint({"--hepl"}) ==
        "unknown option '--hepl', did you mean '--help'? (--help lists all)");
  CHECK(complaint({"--versoin"}) ==
        "unknown option '--versoin', did you mean '--version'? (--help lists all)");
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

TEST_CASE("right options are read") {
  Line line;
  CHECK(complaint({"--steps", "5", "--no-replay"}, line).empty());
  CHECK(line.steps == 5);
  CHECK_FALSE(line.replay);
}

TEST_CASE("a program ends with 2 after a wrong line, with 0 when asked about it, else goes on") {
  const auto status = [](std::vector<const char*> words) {
    words.insert(words.begin(), "program");
    CLI::App app;
    int steps = 0;
    app.add_option("--steps", steps)->check(CLI::Range(1, 9));
    app.final_callback([&] {
      if (steps == 7) throw CLI::ValidationError("not seven");
    });
    return command_line::parse_or_status(app, static_cast<int>(words.size()), words.data(), false);
  };
  CHECK(status({"--stpes", "5"}) == 2);
  CHECK(status({"--steps", "many"}) == 2);
  CHECK(status({"--steps", "10"}) == 2);
  CHECK(status({"--steps", "7"}) == 2);
  CHECK(status({"--steps"}) == 2);
  CHECK(status({"--help"}) == 0);
  CHECK(status({"--version"}) == 0);
  CHECK_FALSE(status({"--steps", "5"}).has_value());
}

TEST_CASE("an error of usage ends a program with 2, any other with 1") {
  using tutti::ErrorCode;
  const auto status = [](ErrorCode code) { return command_line::exit_status({code, "why"}); };
  CHECK(status(ErrorCode::invalid_argument) == 2);
  CHECK(status(ErrorCode::unsupported) == 2);
  CHECK(status(ErrorCode::peer_lost) == 1);
  CHECK(status(ErrorCode::internal) == 1);
}

TEST_CASE("an unreadable value is told in plain words, with the option and the value") {
  CHECK(complaint({"--steps", "5", "--steps", "6"}) ==
        "--steps is given more than once, with '5' and '6'; give it once");
  CHECK(complaint({"--steps"}) == "--steps needs a value behind it");
  CHECK(complaint({"--steps", "many"}) == "--steps: 'many' is not a whole number");
  CHECK(complaint({"--lr", "fast"}) == "--lr: 'fast' is not a number from 0 to 1.5");
  for (const char* value : {"-0.1", "1.6", "nan", "1e9"}) {
    CHECK(complaint({"--lr", value}) ==
          "--lr: '" + std::string(value) + "' is not a number from 0 to 1.5");
  }
}

TEST_CASE("a misspelt name is told with the one that was meant and all there are") {
  CHECK(complaint({"--network", "lenett"}) ==
        "--network: 'lenett' is not known, did you mean 'lenet'? (known: mlp, lenet)");
  CHECK(complaint({"--network", "transformer"}) ==
        "--network: 'transformer' is not known (known: mlp, lenet)");
  Line line;
  CHECK(complaint({"--network", "mlp"}, line).empty());
  CHECK(line.network == "mlp");
}

TEST_CASE("a size may have a unit, and a word that is no size is told with an example") {
  Line line;
  CHECK(complaint({"--bytes", "64K"}, line).empty());
  CHECK(line.bytes == 65536);
  for (const char* value : {"4X", "K", "-1", "99999999999999G"}) {
    CHECK(complaint({"--bytes", value}) ==
          "--bytes: '" + std::string(value) + "' is not a size, such as 65536, 64K or 2M");
  }
}
