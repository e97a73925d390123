// Two hosts as network namespaces: abstract sockets do not cross them, and the wire can be cut.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "worlds.h"

using namespace tutti::control;
using namespace tutti::control::test;
using tutti::base::Clock;

namespace {

void shell(const std::string& command) {
  if (std::system((command + " >/dev/null 2>&1").c_str()) != 0) {
    throw std::runtime_error("failed: " + command);
  }
}

bool hosts_can_be_made() {
  return ::geteuid() == 0 && std::system("unshare -n ip link show lo >/dev/null 2>&1") == 0;
}

void enter_network_of(int process) {
  const tutti::base::Fd space(
      ::open(fmt::format("/proc/{}/ns/net", process).c_str(), O_RDONLY | O_CLOEXEC));
  if (::setns(space.get(), CLONE_NEWNET) != 0) throw std::runtime_error("cannot enter a namespace");
}

/// Ranks 0 and 1 on one host, 2 and 3 on the other, a wire between. The namespaces have no names
/// and go with their processes.
void move_to_host(const ProcessRank& me) {
  const int leader = me.rank / 2 * 2;
  if (me.rank == leader && ::unshare(CLONE_NEWNET) != 0) throw std::runtime_error("cannot unshare");
  const auto processes = me.gather(std::to_string(::getpid()));
  if (me.rank != leader) {
    enter_network_of(std::stoi(processes[static_cast<std::size_t>(leader)]));
  }
  me.gather("");
  if (me.rank == 0) shell("ip link add eth0 type veth peer name eth0 netns " + processes[2]);
  me.gather("");
  if (me.rank == leader) {
    shell(fmt::format("ip addr add 10.77.0.{}/24 dev eth0", me.rank + 1));
    shell("ip link set lo up");
    shell("ip link set eth0 up");
  }
  me.gather("");
}

}  // namespace

TEST_CASE("ranks on two hosts meet over the network between, and a cut of it is noticed") {
  if (!hosts_can_be_made()) {
    WARN("skipped: network namespaces need root and iproute2");
    return;
  }
  ControlSettings settings = test_settings();
  settings.interface = "";
  Processes ranks(4, [&](const ProcessRank& me) {
    move_to_host(me);
    auto plane = ControlPlane::open(me.rank, 4, me.gather, settings, Echo::make);
    me.tell(fmt::format("{} nodes", plane->topology().node_count()));
    say(*plane, "e");
    me.tell(hear(*plane));
    me.gather("");
    if (me.rank == 2) shell("ip link set eth0 down");
    // The link is lost after five seconds without an answer. A busy process may notice it later.
    me.tell(std::to_string(await_loss(*plane, 30s).rank));
    ::pause();
  });
  const std::vector<int> all{0, 1, 2, 3};
  const auto& told = ranks.listen(all, 2);
  const auto cut = Clock::now();
  for (const auto& lines : told) CHECK(lines == std::vector<std::string>{"2 nodes", "e"});
  ranks.listen(all, 3);
  CHECK(Clock::now() - cut < 30s);
  CHECK(told[0][2] == "2");
  CHECK(told[1][2] == "2");
  CHECK(told[2][2] == "0");
  CHECK(told[3][2] == "0");
}
