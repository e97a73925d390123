#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/worker/recalls.h"
#include "ps/worker/window.h"

namespace tutti::ps {

/// Counts of the completed work. Any thread may read them.
struct WorkerTally {
  std::atomic<std::uint64_t> tensors_reduced{0};
  std::atomic<std::uint64_t> bytes_reduced{0};
  std::atomic<std::uint64_t> tensors_broadcast{0};
  std::atomic<std::uint64_t> bytes_broadcast{0};
  std::atomic<std::uint64_t> bytes_sent{0};  ///< to servers

  void add(const Task& done);
};

/// The time that calls may take.
struct Limits {
  base::Clock::duration stall_report_after{};
  base::Clock::duration timeout{};
  /// A server that does not answer a recall within this time is lost.
  base::Clock::duration answer_within{};
  /// Sends a request about a call to this server: the question which workers are missing, or a
  /// recall.
  std::function<void(std::size_t server, const ToServer& request)> send{};
  std::function<base::Clock::time_point()> clock = base::Clock::now;
};

/// The calls of a worker that are under way, and their requests that servers have not answered.
/// Only one thread may use it.
class OutstandingRequests {
 public:
  /// `rank` is the worker's. The tally outlives this object.
  OutstandingRequests(int rank, std::size_t servers, const Limits& limits, WorkerTally& tally);
  OutstandingRequests(const OutstandingRequests&) = delete;
  OutstandingRequests& operator=(const OutstandingRequests&) = delete;

  /// Notes that the call is under way. It is over when it has had this many answers. There must be
  /// at least one.
  void begin(const std::shared_ptr<InFlightCall>& call, std::size_t answers);
  /// Numbers a request to this server whose answer nobody waits for.
  std::uint64_t number(std::size_t server) { return ++sequence_[server]; }
  /// Numbers a request to this server for a piece of the call, which has begun. `bytes` are the
  /// bytes of the request and its answer that the window counts. `prepares` says that the server
  /// executes it before the call's round.
  std::uint64_t add(std::size_t server, std::shared_ptr<InFlightCall> call, std::uint32_t piece,
                    std::uint32_t pieces, std::size_t bytes = 0, bool prepares = false);
  /// Puts the answer's elements into the outputs, and finishes the call with its last answer.
  /// Ignores an answer for which no request waits, because the call has ended before. Throws
  /// `internal` if the server sent another number of elements.
  void take(std::size_t server, const Answer& answer);
  /// Ends every call.
  void fail_all(const std::exception_ptr& failure);
  /// Ends calls that have taken too long, or begins to recall them (`Recalls`), and logs those that
  /// take long. Shortly before, asks the servers which workers are missing, so that report and
  /// error can name them. Call it when `due` says. Throws an error that ends the store.
  void look(base::Clock::time_point now);
  /// The time at which `look` is due; none if no call is under way.
  std::optional<base::Clock::time_point> due() const;
  /// Gives all calls this much more time, because for that time no server could answer.
  void postpone(base::Clock::duration time);
  /// Describes the calls: "push of key 'w' and 3 more calls were under way".
  std::string describe() const;
  /// The calls under way, and the one that waits for this answer, if there is one.
  std::vector<std::shared_ptr<base::Completion>> under_way() const;
  std::shared_ptr<base::Completion> awaiting(std::size_t server, const Answer& answer) const;
  /// Whether no call is under way.
  bool empty() const { return calls_.empty(); }
  /// Decides which of these requests may be sent. `add` and the answers move it.
  Window& window() { return window_; }

 private:
  struct Unanswered {
    std::shared_ptr<InFlightCall> call;
    std::uint32_t piece = 0;
    std::uint32_t pieces = 1;
    std::size_t bytes = 0;
    bool takes_part = false;  ///< whether it is executed in a round
  };
  using BySequence = std::map<std::uint64_t, Unanswered>;
  using Questions = std::map<std::uint64_t, std::shared_ptr<InFlightCall>>;
  using Calls = std::deque<std::shared_ptr<InFlightCall>>;

  void give_time_anew(base::Clock::time_point now);
  void ask(base::Clock::time_point now);
  void ask_about(const std::set<const InFlightCall*>& calls);
  void take_missing(std::size_t server, const Answer& answer);
  Calls::const_iterator first_unasked() const;
  base::Clock::duration next_step() const;
  std::optional<base::Clock::time_point> limit_of(const InFlightCall& call) const;
  void report(base::Clock::time_point now);
  std::vector<std::shared_ptr<InFlightCall>> late_calls(base::Clock::time_point now) const;
  void recall(const std::vector<std::shared_ptr<InFlightCall>>& calls, base::Clock::time_point now);
  void finish(const std::shared_ptr<InFlightCall>& call);
  void time_out(const std::shared_ptr<InFlightCall>& call);
  std::string awaited(const InFlightCall& call) const;

  const Limits limits_;
  WorkerTally& tally_;
  /// In the order in which they began; the first one is not over.
  Calls calls_;
  std::vector<BySequence> waiting_;  ///< by server
  /// By server: the questions which workers are missing in a call.
  std::vector<Questions> questions_;
  std::vector<std::uint64_t> sequence_;  ///< by server: the last number that was given
  Window window_;
  Recalls recalls_;
  /// By key: the time at which the last call ended that had taken more than half of the timeout.
  std::map<Key, base::Clock::time_point> slow_;
  base::Clock::duration next_report_;
};

}  // namespace tutti::ps
