// The machine goes down at any moment: what a server that is started again has of its state. The
// disk is simulated, with all that it may have then.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "unit/ps/durable/simulated_disk.h"
#include "unit/ps/durable/simulated_server.h"

using namespace tutti;
using namespace tutti::ps;
using namespace std::chrono_literals;
using base::Clock;

namespace {

const Durability each{.when = Durability::When::each, .journal_bytes = 150};
/// With this setting some requests wait for the disk together.
const Durability seconds{.when = Durability::When::seconds, .interval = 1s, .journal_bytes = 270};

/// Alone it has what all servers have.
std::uint64_t job_to_begin_with(const std::vector<CountedRequests>& brought, std::uint64_t job) {
  if (brought.empty()) return 0;
  const bool is_there = std::ranges::find(brought, job, &CountedRequests::job) != brought.end();
  return is_there ? job : brought.back().job;
}

/// Processes one after the other, on one disk of a machine that does not go down.
class History {
 public:
  using How = SimulatedServer::How;

  explicit History(const How& how, SimulatedFiles files = {},
                   std::vector<DiskOperation> operations = {})
      : how_(how),
        disk_(std::make_shared<SimulatedDisk>(std::move(files), std::move(operations))),
        known_(disk_->operations().size()) {}

  SimulatedDisk& disk() const { return *disk_; }
  const How& how() const { return how_; }
  std::uint64_t job() const { return job_; }
  /// Operations that were done before this history.
  std::size_t known() const { return known_; }

  /// A process that is killed after some requests. Returns whether it could go on until then.
  bool run(std::uint64_t job, int requests) {
    job_ = job;
    found_.reset();
    try {
      SimulatedServer process(disk_, how_, [this] { return now_; });
      process.prepare(job_to_begin_with(process.brought(), job), job);
      process.begin();
      found_ = process.state().requests;
      if (!acknowledged_.empty() && *found_ < acknowledged_.back().requests) {
        FAIL("a process that was killed has lost requests");
      }
      acknowledge(process);
      for (int i = 0; i < requests; ++i) {
        // Some come together, others when those before are due.
        pass(i % 2 == 0 ? 200ms : 1500ms, process);
        process.take_request();
        process.store();
        acknowledge(process);
      }
    } catch (const Error& error) {
      note_times();
      failure_ = error.what();
      return false;
    }
    return true;
  }
  const std::string& failure() const { return failure_; }
  /// How many requests the last process knew of when it began; empty: it could not begin.
  const std::optional<std::uint64_t>& found() const { return found_; }

  /// The number of requests that were acknowledged before this many operations were done.
  std::uint64_t acknowledged(std::size_t operations) const {
    return most([&](const Acknowledged& one) { return one.operations <= operations; });
  }
  /// The number of requests that a server must know if the machine goes down then.
  std::uint64_t promised(std::size_t operations) const {
    if (how_.durability.when == Durability::When::each) return acknowledged(operations);
    const Clock::time_point then = operations < times_.size() ? times_[operations] : now_;
    return most([&](const Acknowledged& one) {
      return one.operations <= operations && one.at + how_.durability.interval < then;
    });
  }

 private:
  struct Acknowledged {
    std::size_t operations;
    Clock::time_point at;
    std::uint64_t requests;
  };

  std::uint64_t most(const std::function<bool(const Acknowledged&)>& counts) const {
    std::uint64_t requests = 0;
    for (const Acknowledged& one : acknowledged_) {
      if (counts(one)) requests = std::max(requests, one.requests);
    }
    return requests;
  }
  void acknowledge(const SimulatedServer& process) {
    note_times();
    acknowledged_.push_back({disk_->operations().size(), now_, process.state().requests});
  }
  void note_times() { times_.resize(disk_->operations().size(), now_); }
  void pass(Clock::duration time, SimulatedServer& process) {
    const auto until = now_ + time;
    for (auto due = process.due(); due && *due <= until; due = process.due()) {
      now_ = *due;
      process.store();
      note_times();
    }
    now_ = until;
  }

  const How how_;
  const std::shared_ptr<SimulatedDisk> disk_;
  const std::size_t known_;
  Clock::time_point now_;
  std::uint64_t job_ = 1;
  std::vector<Clock::time_point> times_;  ///< of operations
  std::vector<Acknowledged> acknowledged_;
  std::string failure_;
  std::optional<std::uint64_t> found_;
};

/// A server for the first time, one that is killed and goes on, and one of the next job.
void run_jobs(History& history, int requests) {
  history.run(1, requests);
  history.run(1, requests);
  history.run(2, requests);
}

/// The disk after a power cut, and how many requests a server must have then.
using Visit = std::function<void(const SimulatedFiles&, std::uint64_t promised)>;

/// Cuts the power after each operation of this history, with all that the disk may have then.
void cut_everywhere(const History& history, const Visit& visit) {
  const auto& operations = history.disk().operations();
  DiskContent content = history.disk().content_after(history.known());
  std::set<std::pair<SimulatedFiles, std::uint64_t>> seen;
  for (std::size_t done = history.known();; ++done) {
    EveryChoice choice;
    do {
      const auto [found, is_new] =
          seen.emplace(content.after_power_cut(choice), history.promised(done));
      if (is_new) visit(found->first, found->second);
    } while (choice.next());
    if (done == operations.size()) return;
    content.apply(operations[done]);
  }
}

/// The same after some operations, with something that the disk may have.
void cut_somewhere(const History& history, int times, std::minstd_rand& random,
                   const Visit& visit) {
  const std::size_t operations = history.disk().operations().size() - history.known();
  for (int i = 0; i < times; ++i) {
    const std::size_t done = history.known() + random() % (operations + 1);
    AnyChoice choice(random);
    visit(history.disk().content_after(done).after_power_cut(choice), history.promised(done));
  }
}

std::string listed(const SimulatedFiles& files) {
  std::string all;
  for (const auto& [name, bytes] : files) {
    all += name + ": " + std::to_string(bytes.size()) + " bytes\n";
  }
  return all;
}

/// A server that is started on these files, to which these operations were done, and then has some
/// more requests. It must know of as many as were promised.
History started_again(const History& before, const SimulatedFiles& files, std::uint64_t promised,
                      std::vector<DiskOperation> operations = {}) {
  History history(before.how(), files, std::move(operations));
  const bool has_run = history.run(before.job(), 2);
  INFO(listed(files));
  if (!has_run) FAIL("it is refused: " << history.failure());
  if (history.found() < promised) FAIL("of " << promised << " it has " << *history.found());
  return history;
}

/// The processes of this history are killed after each operation, and one is started again, on the
/// same machine.
void kill_everywhere(const History& history,
                     const std::function<void(const History&, std::uint64_t promised)>& visit) {
  const auto& operations = history.disk().operations();
  for (std::size_t done = 0; done <= operations.size(); ++done) {
    const auto end = operations.begin() + static_cast<std::ptrdiff_t>(done);
    visit(started_again(history, {}, history.acknowledged(done), {operations.begin(), end}),
          history.promised(done));
  }
}

/// Each durability, and a writer of checkpoints that is fast or slow.
void for_each_way(const std::function<void(History&)>& visit) {
  const Quiet quiet;
  for (const Durability& durability : {each, seconds}) {
    for (const int lag : {0, 2}) {
      History history({durability, lag});
      visit(history);
    }
  }
}

/// A power cut while a server is started again, after all that an earlier one may have left.
void cut_again(int requests, const std::function<void(const History&, std::uint64_t)>& visit) {
  for_each_way([&](History& history) {
    run_jobs(history, requests);
    cut_everywhere(history, [&](const SimulatedFiles& files, std::uint64_t promised) {
      visit(started_again(history, files, promised), promised);
    });
    kill_everywhere(history, visit);
  });
}

/// A disk that refuses one operation, whichever that is.
void refuse_everything(int requests, const std::function<void(const History&)>& visit) {
  for_each_way([&](const History& like) {
    for (std::size_t refused = 0;; ++refused) {
      History history(like.how());
      history.disk().refuse_after(refused);
      run_jobs(history, requests);
      if (history.disk().operations().size() <= refused) return;
      if (!history.run(2, 1)) FAIL("it is refused: " << history.failure());
      visit(history);
    }
  });
}

}  // namespace

TEST_CASE("a server that is started again after a power cut has the promised state") {
  for_each_way([](History& history) {
    run_jobs(history, 3);
    cut_everywhere(history, [&](const SimulatedFiles& files, std::uint64_t promised) {
      started_again(history, files, promised);
    });
  });
}

TEST_CASE("it may be interrupted while it starts, by another power cut or killed") {
  std::minstd_rand random(1);
  cut_again(1, [&](const History& again, std::uint64_t promised) {
    cut_somewhere(again, 2, random, [&](const SimulatedFiles& files, std::uint64_t later) {
      started_again(again, files, std::max(promised, later));
    });
  });
}

TEST_CASE(
    "a disk that refuses something keeps the promised state, also in a power cut after that") {
  std::minstd_rand random(2);
  refuse_everything(2, [&](const History& history) {
    cut_somewhere(history, 20, random, [&](const SimulatedFiles& files, std::uint64_t promised) {
      started_again(history, files, promised);
    });
  });
}

TEST_CASE("after longer histories, many times", "[slow]") {
  std::minstd_rand random(3);
  cut_again(4, [&](const History& again, std::uint64_t promised) {
    cut_somewhere(again, 15, random, [&](const SimulatedFiles& files, std::uint64_t later) {
      started_again(again, files, std::max(promised, later));
    });
  });
  refuse_everything(4, [&](const History& history) {
    cut_somewhere(history, 300, random, [&](const SimulatedFiles& files, std::uint64_t promised) {
      started_again(history, files, promised);
    });
  });
}
