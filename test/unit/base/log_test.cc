#include "base/log.h"

#include <catch2/catch.hpp>
#include <string>

#include "stderr_of.h"

using namespace std::string_literals;

TEST_CASE("an event is one line of the log, whatever its text holds") {
  const std::string text = stderr_of(
      [] { tutti::base::log().warn("{}", "the key\n[error] forged \x1b[31m\0 and why"s); });
  CHECK_THAT(text,
             Catch::EndsWith("tutti warning: the key\\n[error] forged \\x1b[31m\\x00 and why\n"));
  CHECK(text.find('\n') == text.size() - 1);
}

TEST_CASE("an event of any length is a line of bounded length that ends as the event does") {
  const std::string text =
      stderr_of([] { tutti::base::log().error("{}: the reason", std::string(100'000, 'x')); });
  CHECK(text.size() < 5000);
  CHECK_THAT(text, Catch::Contains("xxx: the reason (100012 bytes)"));
}
