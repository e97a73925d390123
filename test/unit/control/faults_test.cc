// Ranks as processes that are killed, stopped and continued.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "worlds.h"

using namespace tutti::control;
using namespace tutti::control::test;
using tutti::base::Clock;

namespace {

struct Job {
  std::vector<std::string> nodes;
  std::chrono::milliseconds heartbeat_timeout = 30s;
};

/// Opens, tells "ready", waits for a loss, tells it; gives up quietly after `limit`.
std::function<void(const ProcessRank&)> watcher(const Job& job, Clock::duration limit = patience) {
  ControlSettings settings = test_settings();
  settings.heartbeat_timeout = job.heartbeat_timeout;
  return [settings, job, limit](const ProcessRank& me) {
    ControlSettings mine = settings;
    mine.node_label = job.nodes[static_cast<std::size_t>(me.rank)];
    auto plane = ControlPlane::open(me.rank, static_cast<int>(job.nodes.size()), me.gather, mine,
                                    Echo::make);
    me.tell("ready");
    const FailedRank lost = await_loss(*plane, limit);
    me.tell(lost.rank < 0 ? "nothing lost" : std::to_string(lost.rank) + " " + lost.reason);
    // The others are told before this process goes, which would be a death of its own.
    ::pause();
  };
}

std::vector<int> all_ranks(std::size_t size) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < size; ++i) ranks.push_back(static_cast<int>(i));
  return ranks;
}

std::vector<int> all_but(std::size_t size, int victim) {
  std::vector<int> ranks = all_ranks(size);
  std::erase(ranks, victim);
  return ranks;
}

}  // namespace

TEST_CASE("a killed rank is lost to every other rank within milliseconds") {
  const Job job{{"a", "a", "b", "b", "b", "c"}};
  for (const int victim : {0, 1, 2, 4, 5}) {
    Processes ranks(6, watcher(job));
    ranks.listen(all_ranks(6));
    const auto killed = Clock::now();
    ranks.signal(victim, SIGKILL);
    const auto told = ranks.listen(all_but(6, victim), 2);
    const auto took = std::chrono::duration<double, std::milli>(Clock::now() - killed).count();
    WARN("rank " << victim << " killed, everybody knew after " << took << " ms");
    CHECK(took < 1000);
    for (const int rank : all_but(6, victim)) {
      const std::string& lost = told[static_cast<std::size_t>(rank)][1];
      CAPTURE(victim, rank, lost);
      // A node that loses its leader loses rank 0 with it; either answer is true there.
      const bool expected = lost.starts_with(std::to_string(victim) + " ") ||
                            (victim == 2 && (rank == 3 || rank == 4) && lost.starts_with("0 "));
      CHECK(expected);
    }
  }
}

TEST_CASE("a stopped rank is lost when its heartbeats have been missing for the timeout") {
  const Job job{{"a", "a", "b", "b"}, 1s};
  for (const int victim : {0, 1, 2, 3}) {
    Processes ranks(4, watcher(job));
    ranks.listen(all_ranks(4));
    const auto stopped = Clock::now();
    ranks.signal(victim, SIGSTOP);
    const auto told = ranks.listen(all_but(4, victim), 2);
    const auto took = Clock::now() - stopped;
    CHECK(took > 700ms);
    CHECK(took < 5s);
    for (const int rank : all_but(4, victim)) {
      const std::string& lost = told[static_cast<std::size_t>(rank)][1];
      CAPTURE(victim, rank, lost);
      const bool node_without_leader = victim == 2 && rank == 3 && lost.starts_with("0 ");
      const bool named = lost.starts_with(std::to_string(victim) + " ");
      CHECK((named || node_without_leader));
    }
  }
}

TEST_CASE("a job that is suspended as a whole and resumed has lost nobody") {
  const Job job{{"a", "a", "b", "b"}, 1s};
  // The same holds after the rank was resumed, for longer than signs of life may be missing.
  Processes ranks(4, watcher(job, 5s));
  ranks.listen(all_ranks(4));
  for (int round = 0; round < 2; ++round) {
    for (int rank = 0; rank < 4; ++rank) ranks.signal(rank, SIGSTOP);
    std::this_thread::sleep_for(1400ms);
    for (int rank = 0; rank < 4; ++rank) ranks.signal(rank, SIGCONT);
    std::this_thread::sleep_for(300ms);
  }
  const auto told = ranks.listen(all_ranks(4), 2);
  for (const auto& lines : told) CHECK(lines[1] == "nothing lost");
}

namespace {

/// Two ranks on a node each; rank 1 forks, and rank 0 tells of its loss.
std::function<void(const ProcessRank&)> forking(const std::function<void(ControlPlane&)>& parent) {
  return [=, settings = test_settings()](const ProcessRank& me) {
    ControlSettings mine = settings;
    mine.node_label = std::to_string(me.rank);
    auto plane = ControlPlane::open(me.rank, 2, me.gather, mine, Echo::make);
    if (me.rank == 0) {
      const FailedRank lost = await_loss(*plane);
      me.tell(std::to_string(lost.rank));
      ::pause();
    }
    const pid_t child = ::fork();
    if (child == 0) {
      plane->abandon_in_child();
      me.tell("child");
      ::pause();
    }
    parent(*plane);
    me.tell(std::to_string(child));
    ::pause();
  };
}

/// Ends the forked child of rank 1, even if its parent has ended.
struct ChildOf {
  const std::vector<std::string>& told;
  ~ChildOf() { ::kill(std::stoi(told[0] == "child" ? told[1] : told[0]), SIGKILL); }
};

}  // namespace

TEST_CASE("a child that outlives its parent does not hide the parent's death") {
  Processes ranks(2, forking([](ControlPlane&) {}));
  const ChildOf child{ranks.listen({1}, 2)[1]};
  const auto killed = Clock::now();
  ranks.signal(1, SIGKILL);
  CHECK(ranks.listen({0})[0][0] == "1");
  CHECK(Clock::now() - killed < 5s);
}

TEST_CASE("a child that abandons its copy leaves its parent's control plane alone") {
  const auto talk = [](ControlPlane& plane) {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(20ms);
      say(plane, "e");
      if (hear(plane) != "e") throw std::runtime_error("nothing came back");
    }
  };
  Processes ranks(2, forking(talk));
  const ChildOf child{ranks.listen({1}, 2)[1]};
  CHECK(ranks.listen({1}, 2)[0].empty());
}

TEST_CASE("a rank that leaves by agreement and exits has not died") {
  const ControlSettings settings = test_settings();
  Processes ranks(3, [&](const ProcessRank& me) {
    ControlSettings mine = settings;
    mine.node_label = me.rank == 2 ? "b" : "a";
    auto plane = ControlPlane::open(me.rank, 3, me.gather, mine, Echo::make);
    if (me.rank > 0) {
      plane->announce_departed();
      return;
    }
    me.tell(std::to_string(await_loss(*plane, 1s).rank));
    plane->announce_departed();
    me.tell(plane->wait_for_followers(Clock::now() + patience).empty() ? "free" : "not free");
  });
  CHECK(ranks.listen({0}, 2)[0] == std::vector<std::string>{"-1", "free"});
  CHECK(ranks.wait(1) == 0);
  CHECK(ranks.wait(2) == 0);
}
