#include "control/control_plane.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <iostream>
#include <thread>

#include "../base/stderr_of.h"
#include "base/mapping.h"
#include "control/agree.h"
#include "net/sockets.h"
#include "tutti/error.h"
#include "worlds.h"

using namespace tutti::control;
namespace net = tutti::net;
using namespace tutti::control::test;
using Catch::Contains;
using tutti::base::Clock;
using tutti::base::Fd;

namespace {

std::vector<std::vector<std::string>> layouts() {
  return {{"a"},
          {"a", "a", "a"},
          {"a", "b"},
          {"a", "a", "b", "b", "b"},
          {"a", "b", "a", "c", "b", "a", "c"}};
}

WorldOptions world(std::vector<std::string> nodes) {
  WorldOptions options;
  options.nodes = std::move(nodes);
  return options;
}

std::size_t nodes_in(const std::vector<std::string>& labels) {
  std::vector<std::string> names = labels;
  std::sort(names.begin(), names.end());
  return static_cast<std::size_t>(std::unique(names.begin(), names.end()) - names.begin());
}

double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/// TCP sockets of this process that listen.
int listening_ports() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int file = std::stoi(entry.path().filename().string());
    const auto is = [&](int option, int value) {
      int found = 0;
      socklen_t bytes = sizeof found;
      return ::getsockopt(file, SOL_SOCKET, option, &found, &bytes) == 0 && found == value;
    };
    count += is(SO_ACCEPTCONN, 1) && is(SO_PROTOCOL, IPPROTO_TCP) ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("ranks find who shares their node, and the topology is the same everywhere") {
  for (const auto& labels : layouts()) {
    Planes planes = open_world(world(labels));
    for (std::size_t rank = 0; rank < labels.size(); ++rank) {
      const auto& topology = planes[rank]->topology();
      CHECK(topology.rank == static_cast<int>(rank));
      CHECK(topology.nodes == planes[0]->topology().nodes);
      CHECK(static_cast<std::size_t>(topology.node_count()) == nodes_in(labels));
      for (const int other : topology.local_ranks()) {
        CHECK(labels[static_cast<std::size_t>(other)] == labels[rank]);
      }
    }
    CHECK(close_world(planes));
  }
}

TEST_CASE("every rank's messages reach the responder and its answers come back in order") {
  for (const auto& labels : layouts()) {
    Planes planes = open_world(world(labels));
    for (int i = 0; i < 20; ++i) {
      for (const auto& plane : planes) say(*plane, "e" + std::to_string(i));
    }
    for (const auto& plane : planes) {
      for (int i = 0; i < 20; ++i) CHECK(hear(*plane) == "e" + std::to_string(i));
      CHECK(plane->counters().sent == 20);
      CHECK(plane->counters().received == 20);
    }
    CHECK(close_world(planes));
  }
}

TEST_CASE("an answer to everyone reaches everyone, whoever asked") {
  Planes planes = open_world(world({"a", "a", "b", "b", "c"}));
  for (std::size_t asking = 0; asking < planes.size(); ++asking) {
    const std::string text = "all, says " + std::to_string(asking);
    say(*planes[asking], text);
    for (const auto& plane : planes) CHECK(hear(*plane) == text);
  }
  CHECK(close_world(planes));
}

TEST_CASE("messages larger than every buffer on their way arrive whole") {
  Planes planes = open_world(world({"a", "a", "b", "b"}));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < planes.size(); ++rank) {
    texts.push_back("e" +
                    std::string((std::size_t{1} << 20) + rank, static_cast<char>('0' + rank)));
  }
  run_ranks(4, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    for (int i = 0; i < 3; ++i) say(*planes[at], texts[at]);
    for (int i = 0; i < 3; ++i) {
      if (hear(*planes[at]) != texts[at]) throw std::runtime_error("a message was changed");
    }
  });
  CHECK(close_world(planes));
}

TEST_CASE("the ranks of a node hand each other memory files") {
  Planes planes = open_world(world({"a", "b", "a", "b", "a"}));
  std::vector<std::string> seen(5);
  run_ranks(5, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const Fd mine = tutti::base::create_memory_file("test", 4096);
    tutti::base::Mapping(mine, 4096).data()[0] = static_cast<std::byte>('0' + rank);
    for (const Fd& file : planes[at]->share(mine)) {
      seen[at] += std::to_integer<char>(tutti::base::Mapping(file, 4096).data()[0]);
    }
  });
  CHECK(seen == std::vector<std::string>{"024", "13", "024", "13", "024"});
  CHECK(close_world(planes));
}

TEST_CASE("only a job on several nodes listens on a port, and only until all are there") {
  for (const auto& labels : {std::vector<std::string>{"a", "a"}, {"a", "b"}}) {
    const int before = listening_ports();
    int most = before;
    WorldOptions options = world(labels);
    options.after_gather = [&](int rank, const std::vector<std::string>&) {
      if (rank == 0) most = std::max(most, listening_ports());
    };
    Planes planes = open_world(options);
    CHECK(most == before + static_cast<int>(nodes_in(labels)) - 1);
    CHECK(listening_ports() == before);
    CHECK(close_world(planes));
  }
}

TEST_CASE("an unknown interface is the same error on every rank") {
  WorldOptions options = world({"a", "b", "b"});
  options.settings.interface = "eth77";
  ThreadGather gather(3);
  std::vector<std::string> errors(3);
  run_ranks(3, [&](int rank) {
    try {
      ControlPlane::open(rank, 3, gather.of(rank), options.settings, nullptr);
    } catch (const tutti::Error& error) {
      errors[static_cast<std::size_t>(rank)] = error.what();
      if (error.code() != tutti::ErrorCode::invalid_argument) throw;
    }
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Contains("'eth77' (DMLC_INTERFACE) does not exist") && Contains("lo ("));
  }
}

TEST_CASE(
    "a step that fails on one rank fails on all, and the cause is named before its consequences") {
  ThreadGather gather(3);
  std::vector<std::string> errors(3);
  const auto outcomes = [](int rank) -> std::string {
    if (rank == 0) throw tutti::Error(tutti::ErrorCode::timeout, "rank 2 did not come");
    if (rank == 2) throw tutti::Error(tutti::ErrorCode::unsupported, "no such thing");
    return "fine";
  };
  run_ranks(3, [&](int rank) {
    try {
      agree(gather.of(rank), [&] { return outcomes(rank); });
    } catch (const tutti::Error& error) {
      errors[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  CHECK(errors == std::vector<std::string>{"rank 2: no such thing", "rank 2: no such thing",
                                           "no such thing"});
}

TEST_CASE("strangers that call while the job meets do it no harm") {
  std::vector<Fd> strangers;
  int round = 0;
  WorldOptions options = world({"a", "b", "c"});
  options.after_gather = [&](int rank, const std::vector<std::string>& all) {
    // The third gather publishes rank 0's port.
    if (rank != 0 || ++round != 3) return;
    const auto port = static_cast<std::uint16_t>(std::stoi(all[0].substr(1)));
    for (std::size_t i = 0; i < 20; ++i) {
      strangers.push_back(net::start_connecting("127.0.0.1", port, ""));
      net::wait_writable(strangers.back(), Clock::now() + patience);
      const std::string noise(i * 50, 'x');
      ::send(strangers.back().get(), noise.data(), noise.size(), MSG_NOSIGNAL);
    }
  };
  Planes planes = open_world(options);
  CHECK(strangers.size() == 20);
  for (const auto& plane : planes) {
    say(*plane, "e");
    CHECK(hear(*plane) == "e");
  }
  CHECK(close_world(planes));
}

TEST_CASE("a thousand strangers are told of in a dozen lines of the log, and all are counted") {
  constexpr std::size_t calls = 1000;
  WorldOptions options = world({"a", "b", "c"});
  int round = 0;
  options.after_gather = [&](int rank, const std::vector<std::string>& all) {
    if (rank != 1 || ++round != 3) return;
    const auto port = static_cast<std::uint16_t>(std::stoi(all[0].substr(1)));
    for (std::size_t i = 0; i < calls; ++i) {
      const Fd stranger = net::start_connecting("127.0.0.1", port, "");
      net::wait_writable(stranger, Clock::now() + patience);
      ::send(stranger.get(), "x", 1, MSG_NOSIGNAL);
      // Waits until the other end has closed it.
      net::wait_readable(stranger, Clock::now() + patience);
    }
  };
  Planes planes;
  const std::string log = stderr_of([&] { planes = open_world(options); });
  const std::vector<std::string> lines = lines_of(log);
  CHECK(lines.size() <= 12);
  REQUIRE(!lines.empty());
  CHECK_THAT(lines.back(), Contains("rank 0 has closed 1000 connections"));
  CHECK(close_world(planes));
}

TEST_CASE("ranks that do not come are named when the wait is over") {
  WorldOptions options = world({"a", "b", "c"});
  options.settings.create_timeout = 1500ms;
  int round = 0;
  options.after_gather = [&](int rank, const std::vector<std::string>&) {
    if (rank == 2 && ++round == 3) std::this_thread::sleep_for(2s);
  };
  CHECK_THROWS_WITH(open_world(options),
                    Contains("rank 0 gave up waiting for rank(s) 2 to connect"));
}

namespace {

/// Breaks when it is asked to.
class Breaking : public Echo {
 public:
  void receive(int from, net::ConstBytes message) override {
    if (net::as_text(message) == "break") throw std::runtime_error("the plan makes no sense");
    Echo::receive(from, message);
  }
};

}  // namespace

TEST_CASE("an exception in tutti-coord becomes a loss of rank 0 at every rank") {
  WorldOptions options = world({"a", "a", "b", "b"});
  options.responder = [] { return std::make_unique<Breaking>(); };
  Planes planes = open_world(options);
  say(*planes[3], "break");
  for (const auto& plane : planes) REQUIRE(await_loss(*plane).rank == 0);
  CHECK_THAT(planes[1]->lost_rank()->reason, Contains("tutti-coord") && Contains("makes no sense"));
  CHECK_THAT(planes[0]->describe(), Contains("rank 0 is lost"));
}

TEST_CASE("a rank that goes without a word is lost to everybody, and the answer never changes") {
  for (const std::size_t gone : {0U, 2U, 3U}) {
    Planes planes = open_world(world({"a", "a", "b", "b"}));
    planes[gone].reset();
    for (std::size_t rank = 0; rank < planes.size(); ++rank) {
      if (rank == gone) continue;
      const FailedRank lost = await_loss(*planes[rank]);
      REQUIRE(lost.rank == static_cast<int>(gone));
      CHECK(lost.reason == "it gave up the store without leaving it");
    }
    planes[1].reset();
    for (const std::size_t rank : {0U, 2U, 3U}) {
      if (rank != gone) CHECK(planes[rank]->lost_rank()->rank == static_cast<int>(gone));
    }
  }
}

TEST_CASE("descriptors of a rank that is gone are an error that names it") {
  Planes planes = open_world(world({"a", "a", "a"}));
  planes[1].reset();
  const Fd mine = tutti::base::create_memory_file("test", 4096);
  try {
    planes[0]->share(mine);
    FAIL("it was shared with a rank that is gone");
  } catch (const tutti::Error& error) {
    CHECK(error.code() == tutti::ErrorCode::timeout);
    CHECK_THAT(error.what(), Contains("rank 1 (to rank 0, on the same node) went away"));
  }
}

TEST_CASE("ranks that leave by agreement are no loss, and those that relay for others wait") {
  Planes planes = open_world(world({"a", "a", "b", "b"}));
  planes[2]->announce_departed();
  CHECK(planes[2]->wait_for_followers(Clock::now() + 50ms) == std::vector<int>{3});
  say(*planes[3], "e still here");
  CHECK(hear(*planes[3]) == "e still here");
  planes[3]->announce_departed();
  CHECK(planes[2]->wait_for_followers(Clock::now() + patience).empty());
  planes[3].reset();
  planes[2].reset();
  planes[0]->announce_departed();
  // That ranks 2 and 3 left is still on its way.
  const auto deadline = Clock::now() + patience;
  std::vector<int> followers;
  do {
    followers = planes[0]->wait_for_followers(Clock::now() + 50ms);
  } while (followers.size() > 1 && Clock::now() < deadline);
  CHECK(followers == std::vector<int>{1});
  CHECK_FALSE(planes[0]->lost_rank());
  CHECK_FALSE(planes[1]->lost_rank());
  planes[1]->announce_departed();
  CHECK(planes[0]->wait_for_followers(Clock::now() + patience).empty());
}

namespace {

/// Remembers when it was called.
class Clockwork : public Echo {
 public:
  void tick(std::chrono::nanoseconds now) override {
    if (now < next_) return;
    next_ += 20ms;
    if (++ticks_ == 5) answers_.push_back({everyone, net::Bytes(1, std::byte{'t'})});
  }
  std::optional<std::chrono::nanoseconds> next_tick() const override { return next_; }
  std::vector<Outgoing> take_messages() override { return std::exchange(answers_, {}); }

 private:
  std::chrono::nanoseconds next_ = 20ms;
  int ticks_ = 0;
  std::vector<Outgoing> answers_;
};

}  // namespace

TEST_CASE("the responder's clock runs without any message") {
  WorldOptions options = world({"a", "b"});
  options.responder = [] { return std::make_unique<Clockwork>(); };
  const auto start = Clock::now();
  Planes planes = open_world(options);
  CHECK(hear(*planes[1]) == "t");
  const auto took = Clock::now() - start;
  CHECK(took >= 100ms);
  CHECK(took < 2s);
  CHECK(hear(*planes[0]) == "t");
  CHECK(close_world(planes));
}

TEST_CASE("an idle control plane uses no processor time") {
  Planes planes = open_world(world({"a", "a", "b", "b"}));
  std::this_thread::sleep_for(100ms);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(2s);
  const double used = cpu_seconds() - before;
  std::cout << "idle: " << used / 2 * 100 << " % of a core for 4 ranks on 2 nodes\n";
  CHECK(used < 0.02);
  CHECK(close_world(planes));
}

TEST_CASE("a thousand messages go to the responder and back, each before the next") {
  for (const auto& labels : {std::vector<std::string>{"a", "a"}, {"a", "b"}}) {
    Planes planes = open_world(world(labels));
    for (int i = 0; i < 1000; ++i) {
      say(*planes[1], "e" + std::to_string(i));
      REQUIRE(hear(*planes[1]) == "e" + std::to_string(i));
    }
    CHECK(close_world(planes));
  }
}
