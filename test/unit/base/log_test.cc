#include "base/log.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "stderr_of.h"
#include "tutti/log.h"

using namespace std::string_literals;

TEST_CASE("an event is one line of the log, whatever its text holds") {
  const std::string text = stderr_of(
      [] { tutti::base::log().warn("{}", "the key\n[error] forged \x1b[31m\0 and why"s); });
  CHECK_THAT(text,
             Catch::EndsWith("tutti warning: the key\\n[error] forged \\x1b[31m\\x00 and why\n"));
  CHECK(text.find('\n') == text.size() - 1);
}

TEST_CASE("a program's own log takes the lines that it wants, and stderr gets the others") {
  std::string taken;
  tutti::set_log_taker([&](const tutti::LogLine& line) {
    if (line.level >= tutti::LogLevel::error) return false;
    taken += std::to_string(line.rank) + " " + std::string(line.text) + ";";
    return true;
  });
  const std::string text = stderr_of([] {
    tutti::base::log().info("below the log's level");
    tutti::base::log().warn("a stall\nof two");
    tutti::base::log().error("a loss");
  });
  tutti::set_log_taker({});
  CHECK(taken == "-1 a stall\\nof two;");
  CHECK_THAT(text, Catch::EndsWith("tutti error: a loss\n") && !Catch::Contains("stall"));
  CHECK_THAT(stderr_of([] { tutti::base::log().warn("afterwards"); }),
             Catch::Contains("afterwards"));
}

TEST_CASE("a forked child writes its lines to stderr, though its parent's log took them") {
  tutti::set_log_taker([](const tutti::LogLine&) { return true; });
  const std::string text = stderr_of([] {
    if (::fork() == 0) {
      tutti::base::log().warn("of the child");
      ::_exit(0);
    }
    ::wait(nullptr);
  });
  tutti::set_log_taker({});
  CHECK_THAT(text, Catch::EndsWith("tutti warning: of the child\n"));
}

TEST_CASE("an event of any length is a line of bounded length that ends as the event does") {
  const std::string text =
      stderr_of([] { tutti::base::log().error("{}: the reason", std::string(100'000, 'x')); });
  CHECK(text.size() < 5000);
  CHECK_THAT(text, Catch::Contains("xxx: the reason (100012 bytes)"));
}
