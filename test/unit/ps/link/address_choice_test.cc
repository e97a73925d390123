#include "ps/link/address_choice.h"

#include <catch2/catch.hpp>

using namespace tutti::ps;

TEST_CASE("a scheduler whose host's own name leads to its loopback interface listens everywhere") {
  CHECK(listening_address("node1", {"127.0.1.1"}, "", true) == "0.0.0.0");
  CHECK(listening_address("node1", {"127.0.1.1"}, "10.0.0.1", true) == "0.0.0.0");
  CHECK(listening_address("node1", {"127.0.1.1", "10.0.0.1"}, "", true) == "0.0.0.0");
  CHECK(listening_address("node1", {"::1"}, "", true) == "::");
}

TEST_CASE("a scheduler listens where its root leads, and does not leave the machine unasked") {
  CHECK(listening_address("10.0.0.1", {"10.0.0.1"}, "", true) == "10.0.0.1");
  CHECK(listening_address("node1", {"10.0.0.1"}, "", true) == "10.0.0.1");
  CHECK(listening_address("127.0.0.1", {"127.0.0.1"}, "", true) == "127.0.0.1");
  CHECK(listening_address("localhost", {"127.0.0.1"}, "", true) == "127.0.0.1");
  CHECK(listening_address("ip6-localhost", {"::1"}, "", true) == "::1");
  CHECK(listening_address("node1", {"127.0.1.1"}, "", false) == "127.0.1.1");
}

TEST_CASE("of several addresses the scheduler takes that of the interface that is asked for") {
  const std::vector<std::string> both{"10.0.0.1", "10.1.0.1"};
  CHECK(listening_address("node1", both, "", true) == "10.0.0.1");
  CHECK(listening_address("node1", both, "10.1.0.1", true) == "10.1.0.1");
  CHECK(listening_address("node1", both, "10.2.0.1", true) == "10.0.0.1");
}

TEST_CASE("a server beside the scheduler says an address at which other hosts reach it") {
  const std::vector<std::string> here{"10.0.0.1", "10.1.0.1"};
  CHECK(server_address("node1", "127.0.0.1", here, true) == "10.0.0.1");
  CHECK(server_address("node1", "10.1.0.1", here, true) == "10.1.0.1");
  CHECK(server_address("node1", "127.0.0.1", here, false) == "127.0.0.1");
  CHECK(server_address("localhost", "127.0.0.1", here, true) == "127.0.0.1");
  CHECK(server_address("127.0.0.1", "127.0.0.1", here, true) == "127.0.0.1");
  CHECK(server_address("127.0.1.1", "127.0.0.1", here, true) == "127.0.0.1");
}
