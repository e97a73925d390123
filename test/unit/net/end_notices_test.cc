#include "net/end_notices.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "net/sockets.h"

using namespace tutti;
using namespace tutti::net;

namespace {

/// The launcher's helper beside this process.
struct Helper {
  std::string address = "end-notices-test-" + std::to_string(::getpid());
  base::Fd listener = listen_abstract(address);
  base::Fd process{};

  void accept() { process = accept_one(listener); }
  void say(const std::string& packet) const {
    ::send(process.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
  }
  std::string hear() const {
    std::array<char, 64> packet{};
    const ssize_t size = ::recv(process.get(), packet.data(), packet.size(), 0);
    return {packet.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }
};

}  // namespace

TEST_CASE("a process that waits names its job and gets the notices of ended processes, in turn") {
  Helper helper;
  EndNotices notices(helper.address, "job 7");
  helper.accept();
  CHECK(helper.hear() == "job 7");
  CHECK(notices.heard().empty());
  helper.say("worker 12\nworker 12 on h1 ended with exit code 3");
  helper.say("scheduler\nscheduler on h0 ended with exit code 1");
  REQUIRE(notices.heard().size() == 2);
  CHECK(notices.heard()[0].title == "worker 12");
  CHECK(notices.heard()[0].worker == 12);
  CHECK(notices.heard()[0].text == "worker 12 on h1 ended with exit code 3");
  CHECK(notices.heard()[1].worker == -1);
  notices.tell_complete();
  CHECK(helper.hear() == "complete");
}

TEST_CASE("if a helper ends, its notices stay, and nobody waits for it") {
  Helper helper;
  EndNotices notices(helper.address, "job");
  helper.accept();
  CHECK(helper.hear() == "job");
  helper.say("worker 0\nit \x1b[2J ended");
  helper.process.reset();
  REQUIRE(notices.heard().size() == 1);
  CHECK(notices.heard()[0].text == "it \\x1b[2J ended");
  CHECK_FALSE(notices.descriptor());
  notices.tell_complete();
}

TEST_CASE("without a launcher nothing is heard") {
  for (const std::string address : {"", "end-notices-nobody"}) {
    EndNotices notices(address, "job");
    CHECK_FALSE(notices.descriptor());
    CHECK(notices.heard().empty());
  }
}
