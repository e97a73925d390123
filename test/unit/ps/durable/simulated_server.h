// A server's storage on a simulated disk, and the part of a server that tells what the storage has.
#pragma once
#include <sys/eventfd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "ps/durable/storage.h"
#include "tutti/error.h"
#include "unit/ps/durable/simulated_disk.h"

namespace tutti::ps {

/// Writes a state when it has been asked this many times whether it has.
class LateWriter : public StateWriter {
 public:
  LateWriter(base::Disk& disk, int lag) : disk_(disk), lag_(lag) {}

  bool start(const std::string& name, const State& state) override {
    write_ = [this, name, bytes = state()] { write_state(disk_, name, [&] { return bytes; }); };
    left_ = lag_;
    return true;
  }
  base::Fd end() const override { return base::Fd(::eventfd(1, EFD_CLOEXEC)); }
  bool has_ended() override {
    if (left_-- > 0) return false;
    try {
      std::exchange(write_, [] {})();
    } catch (const Error&) {  // as a child process that ends without it
    }
    return true;
  }
  void stop() override {
    write_ = [] {};
  }

 private:
  base::Disk& disk_;
  const int lag_;
  int left_ = 0;
  std::function<void()> write_ = [] {};
};

/// All that is kept: how many requests have come, and of which job.
struct CountedRequests {
  std::uint64_t job = 0;
  std::uint64_t requests = 0;

  net::Bytes bytes() const {
    net::Bytes bytes;
    net::append_u64(bytes, job);
    net::append_u64(bytes, requests);
    return bytes;
  }
  static CountedRequests in(const net::Bytes& bytes) {
    return {net::load_u64(bytes.data()), net::load_u64(&bytes[8])};
  }
  static CountedRequests in(const StateFiles& files) {
    CountedRequests state = in(files.read_checkpoint());
    files.replay(state.job, [&](net::ConstBytes record) {
      if (net::load_u64(record.data()) != ++state.requests) FAIL("requests are missing in between");
    });
    return state;
  }
};

/// It does with its storage as `Server` does.
class SimulatedServer {
 public:
  struct How {
    Durability durability;
    int lag;  ///< of the writer
  };

  /// Reads the files that are there.
  SimulatedServer(const std::shared_ptr<SimulatedDisk>& disk, const How& how,
                  std::function<base::Clock::time_point()> now = base::Clock::now)
      : storage_(how.durability, 0, 1,
                 {{}, disk, std::make_unique<LateWriter>(*disk, how.lag), std::move(now)}) {
    const StateFiles& files = storage_.files();
    if (files.has_state()) brought_.push_back(CountedRequests::in(files));
    if (!files.has_prepared()) return;
    const CountedRequests prepared = CountedRequests::in(files.read_prepared());
    if (brought_.empty() || brought_[0].job != prepared.job) brought_.push_back(prepared);
  }

  /// The states with which it may begin, the older first.
  const std::vector<CountedRequests>& brought() const { return brought_; }
  const CountedRequests& state() const { return state_; }
  std::optional<base::Clock::time_point> due() const { return storage_.due(); }

  /// Prepares the state of one job; 0 for none.
  void prepare(std::uint64_t begins_with, std::uint64_t job) {
    const auto chosen = std::ranges::find(brought_, begins_with, &CountedRequests::job);
    const bool is_there = chosen != brought_.end();
    storage_.settle(is_there && (!storage_.files().has_state() || chosen != brought_.begin()));
    if (is_there) state_ = *chosen;
    state_.job = job;
    storage_.prepare([this] { return state_.bytes(); });
    while (!storage_.has_prepared()) continue;
  }
  void begin() { storage_.begin(state_.job); }
  void take_request() {
    net::Bytes body;
    net::append_u64(body, ++state_.requests);
    storage_.append(body, net::as_bytes("a gradient"));
  }
  void store() {
    storage_.commit();
    storage_.look([this] { return state_.bytes(); });
  }

 private:
  Storage storage_;
  std::vector<CountedRequests> brought_;
  CountedRequests state_;
};

/// One of many that may be picked.
class AnyChoice : public Chooser {
 public:
  explicit AnyChoice(std::minstd_rand& random) : random_(random) {}
  std::size_t pick(std::size_t count) override { return random_() % count; }

 private:
  std::minstd_rand& random_;
};

/// While it lives nothing is logged of the many starts.
class Quiet {
 public:
  Quiet() { base::set_log_level("off"); }
  ~Quiet() { base::set_log_level("warning"); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

}  // namespace tutti::ps
