#pragma once
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ps/protocol/compression.h"
#include "ps/server/table.h"
#include "ps/worker/outbox.h"
#include "ps/worker/outstanding_requests.h"

/// A parameter-server job in simulated time: workers that are late at random make calls and, where
/// these time out, make them again. Servers and the workers' sides are the library's; connections
/// keep the order of messages, which take some time.
namespace tutti::ps::lateness {

using base::Clock;

/// The calls that all workers make in a step, if the phase before has succeeded.
struct Made {
  enum class What : std::uint8_t { round, pull, row, optimizer, compression, load };
  What what = What::round;
  Kind kind = Kind::pushpull;
  std::size_t key = 0;  ///< it has key + 1 pieces
  int root = 0;
  /// Worker r brings (r + 1) times that to a round. Of an optimizer it is the learning rate, and
  /// where states are loaded, the key's momentum, too.
  float base = 0;

  /// The program waits for its end before it makes another call.
  bool is_setting() const { return what > What::row; }
  bool gets_data() const {
    if (what != What::round) return !is_setting();
    return kind == Kind::broadcast || kind == Kind::pushpull;
  }
};
struct Step {
  std::vector<std::vector<Made>> phases;
  std::vector<Clock::duration> lateness{};  ///< by worker
  int attempts = 1;                         ///< until all phases succeed
};
struct Plan {
  int workers = 2;
  int servers = 1;
  bool asynchronous = false;
  int staleness = unbounded;
  Clock::duration timeout{};
  Clock::duration slowest_message{};
  Clock::duration slowest_piece{};  ///< how long one takes to leave its worker
  bool restarts = false;            ///< servers, from what they have saved
  std::vector<Step> steps{};
};

/// The end of a call: "3", or "done" if nothing comes back, or "timeout: ...".
struct Ending {
  Made made;
  std::string text;

  bool is_late() const { return text.starts_with("timeout"); }
};

class Worker;

class World {
 public:
  World(Plan plan, std::uint64_t seed);
  ~World();

  /// Runs until all workers have done all steps. Returns false if nothing happens any more.
  bool run();
  /// The ends of the worker's calls, in their order.
  const std::vector<Ending>& ends_of(int worker) const;
  /// The value of a key on the servers. All elements must be the same number.
  float stored(std::size_t key) const;

 private:
  friend class Worker;
  using Event = std::function<void()>;

  Clock::duration up_to(Clock::duration most);
  void after(Clock::duration time, Event event);
  void send(int worker, std::size_t server, const ToServer& said);
  void answer(std::size_t server, int worker, const Answer& answer);
  void deliver(Clock::time_point& last, Event event);
  std::unique_ptr<Table> new_table(std::size_t server);
  void restart(std::size_t server);

  const Plan plan_;
  std::mt19937_64 random_;
  Clock::time_point now_{std::chrono::hours(1)};
  std::multimap<Clock::time_point, Event> events_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<std::pair<int, std::size_t>, Clock::time_point> last_up_;
  std::map<std::pair<int, std::size_t>, Clock::time_point> last_down_;
};

/// Every call of a synchronous job must end in the same way on all workers. If it did not time out,
/// its result must be right.
void check(const Plan& plan, const World& world);
/// In an asynchronous job the same must hold for broadcasts, and each worker's pushes must count
/// once.
void check_asynchronous(const Plan& plan, const World& world);

/// A random plan.
Plan plan_of(std::uint64_t seed, bool asynchronous);

}  // namespace tutti::ps::lateness
