#include "base/wait_limits.h"

#include <catch2/catch.hpp>

using namespace tutti::base;
using namespace std::chrono_literals;

TEST_CASE("a limit is printed as it was chosen, with the option that sets it") {
  CHECK(key_limit(3s) == "3 s (key_timeout, TUTTI_TIMEOUT_SECONDS)");
  CHECK(create_limit(50ms) == "0.05 s (create_timeout, TUTTI_CREATE_SECONDS)");
  CHECK(heartbeat_limit(1800s) == "1800 s (heartbeat_timeout, TUTTI_HEARTBEAT_SECONDS)");
  // A century.
  CHECK(seconds_text(3'153'600'000s) == "3153600000 s");
}
