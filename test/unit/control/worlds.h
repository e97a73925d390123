#pragma once
// Ranks for tests: as threads of this process, or as processes that can be killed.
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "control/control_plane.h"

namespace tutti::control::test {

using namespace std::chrono_literals;

/// Nothing in these tests takes this long unless it hangs.
inline constexpr auto patience = 6s;

std::string some_secret();
inline ControlSettings test_settings() {
  ControlSettings settings;
  settings.create_timeout = patience;
  settings.secret = some_secret();
  settings.interface = "lo";
  return settings;
}

/// Answers 'e...' to its sender and 'a...' to everyone, both unchanged; remembers losses.
class Echo : public Responder {
 public:
  static std::unique_ptr<Responder> make(const topology::Topology& /*topology*/) {
    return std::make_unique<Echo>();
  }
  void tick(std::chrono::nanoseconds) override {}
  std::optional<std::chrono::nanoseconds> next_tick() const override { return std::nullopt; }
  void receive(int from, net::ConstBytes message) override;
  void note_lost(int, const std::string&) override {}
  std::vector<Outgoing> take_messages() override { return std::exchange(answers_, {}); }

 private:
  std::vector<Outgoing> answers_;
};

/// An AllGather between threads.
class ThreadGather {
 public:
  explicit ThreadGather(int size) : said_(static_cast<std::size_t>(size)) {}
  AllGather of(int rank);

 private:
  std::vector<std::string> meet(int rank, std::string mine);

  base::Mutex mutex_{8};
  base::CondVar changed_;
  std::vector<std::string> said_ TUTTI_GUARDED_BY(mutex_);
  std::vector<std::string> last_ TUTTI_GUARDED_BY(mutex_);
  std::size_t here_ TUTTI_GUARDED_BY(mutex_) = 0;
  int round_ TUTTI_GUARDED_BY(mutex_) = 0;
};

/// Runs `body(rank)` on a thread each; rethrows the first exception in the order of ranks.
void run_ranks(int size, const std::function<void(int)>& body);

/// One control plane a rank, all in this process on one mapping of each segment.
using Planes = std::vector<std::unique_ptr<ControlPlane>>;
struct WorldOptions {
  /// By rank. Ranks with the same label share a node.
  std::vector<std::string> nodes;
  ControlSettings settings = test_settings();
  /// Called on every rank with what each gather gave.
  std::function<void(int, const std::vector<std::string>&)> after_gather = [](auto...) {};
  std::function<std::unique_ptr<Responder>()> responder = [] { return std::make_unique<Echo>(); };
};
Planes open_world(const WorldOptions& options);
/// All leave by agreement; true: everybody was free to go.
bool close_world(Planes& planes);

inline void say(ControlPlane& plane, std::string_view text) {
  plane.send(net::as_bytes(text));
}
/// The next message; empty when none comes.
std::string hear(ControlPlane& plane);
/// Waits for a loss; rank -1 when none comes until the deadline.
FailedRank await_loss(ControlPlane& plane, base::Clock::duration limit = patience);

/// The means that a rank gets which is a process: an AllGather, and a way to tell the test
/// something.
struct ProcessRank {
  int rank;
  AllGather gather;
  std::function<void(const std::string&)> tell;
};

/// Forked ranks. Make it before any thread is started. The destructor kills the remaining ones.
class Processes {
 public:
  /// Each runs `body` and exits.
  Processes(int size, const std::function<void(const ProcessRank&)>& body);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Serves the AllGathers until each of `ranks` has told `count` texts. Returns these texts, by
  /// rank and in order. Fails the test if that takes too long.
  const std::vector<std::vector<std::string>>& listen(const std::vector<int>& ranks,
                                                      std::size_t count = 1);
  void signal(int rank, int number) const;
  /// The exit code, or minus the signal that ended it.
  int wait(int rank);

 private:
  void take(int rank, const std::string& said);

  std::vector<pid_t> children_;
  std::vector<base::Fd> sockets_;
  std::vector<std::vector<std::string>> gathering_;
  std::vector<std::vector<std::string>> told_;
};

}  // namespace tutti::control::test
