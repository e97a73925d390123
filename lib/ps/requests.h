#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/completion.h"
#include "ps/messages.h"
#include "ps/window.h"

namespace tutti::ps {

/// One key of a method call, as a worker sends it.
struct Task {
  std::optional<Kind> kind{};  ///< none: a pull
  Key key = 0;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  DType dtype = DType::f32;
  Shape shape{};
  Tensor in{};                 ///< what this worker contributes; where it brings nothing, empty
  std::vector<Tensor> outs{};  ///< for what comes back
  /// Of a pull: these rows alone, ascending; the others become zeros.
  std::optional<std::vector<std::int64_t>> rows{};
  int priority = 0;
  Compression compression{};

  /// "push of key 'w'".
  std::string describe() const;
};

/// A task, or a setting, on its way: it is over when all servers that it went to have answered.
struct Call {
  Task task{};
  std::optional<Key> key{};    ///< of a task
  std::optional<Kind> kind{};  ///< of a task
  int priority = 0;            ///< of a task
  bool is_setting = false;     ///< which servers keep until all workers have made theirs
  std::string what{};
  std::shared_ptr<base::Completion> completion{};  ///< none: it is over
  std::optional<Failure> objection{};  ///< of a task that is over: why none of it was sent
  base::Clock::time_point begun{};
  /// Takes what the answer for one of so many pieces brings; none: it is for the outputs.
  std::function<void(std::uint32_t piece, std::uint32_t pieces, std::span<const std::byte> data)>
      take{};
  std::size_t unanswered = 0;    ///< also those requests that are still to be sent
  std::exception_ptr failure{};  ///< the first one
  /// The newest answer to who is missing, of a server that still has to answer the call.
  struct Missing {
    std::size_t server = 0;
    Failure who{};
  };
  std::optional<Missing> missing{};
  base::Clock::duration asked_for{};  ///< the last report, or the end, that servers were asked for
};

/// What has been done; read by any thread.
struct Tally {
  std::atomic<std::uint64_t> tensors_reduced{0};
  std::atomic<std::uint64_t> bytes_reduced{0};
  std::atomic<std::uint64_t> tensors_broadcast{0};
  std::atomic<std::uint64_t> bytes_broadcast{0};
  std::atomic<std::uint64_t> bytes_sent{0};  ///< to servers

  void add(const Task& done);
};

/// How long calls may take.
struct Limits {
  base::Clock::duration stall_report_after{};
  base::Clock::duration timeout{};
  /// Called before a call ends that has taken too long: its tensors may still be on their way.
  std::function<void()> before_timeout{};
  /// Sends a question to this server; none: no server is asked who is missing.
  std::function<void(std::size_t server, const FindMissing& question)> ask{};
};

/// The calls of a worker that are under way, and their requests that servers have not answered. For
/// one thread.
class Requests {
 public:
  /// The tally outlives this.
  Requests(std::size_t servers, const Limits& limits, Tally& tally);

  /// From now on the call is under way. It is over when it has had so many answers, one at least.
  void begin(const std::shared_ptr<Call>& call, std::size_t answers);
  /// Numbers a request to this server whose answer nobody waits for.
  std::uint64_t number(std::size_t server) { return ++sequence_[server]; }
  /// Numbers a request to this server for a piece of the call, which has begun. `bytes`: what of
  /// it and of its answer the window counts.
  std::uint64_t add(std::size_t server, std::shared_ptr<Call> call, std::uint32_t piece,
                    std::uint32_t pieces, std::size_t bytes = 0);
  /// Puts what came into the outputs, and finishes the call with its last answer. An answer to
  /// nothing that waits is ignored: the call has ended before. Throws `internal` if the server sent
  /// another number of elements.
  void take(std::size_t server, const Answer& answer);
  /// Ends every call.
  void fail_all(const std::exception_ptr& failure);
  /// Ends calls that have taken too long and logs those that take long. Shortly before, it asks the
  /// servers who is missing, so that report and error can name them. Call it when `due` says.
  void look(base::Clock::time_point now);
  /// None: no call is under way.
  std::optional<base::Clock::time_point> due() const;
  /// So long nobody could answer: all calls have as much more time.
  void postpone(base::Clock::duration time);
  /// "push of key 'w' and 3 more calls were under way".
  std::string describe() const;
  /// The calls under way, and the one that waits for this answer, if any.
  std::vector<std::shared_ptr<base::Completion>> under_way() const;
  std::shared_ptr<base::Completion> awaiting(std::size_t server, const Answer& answer) const;
  /// No call is under way.
  bool empty() const { return calls_.empty(); }
  /// Which of these requests may be sent; `add` and their answers move it.
  Window& window() { return window_; }

 private:
  struct Request {
    std::shared_ptr<Call> call;
    std::uint32_t piece = 0;
    std::uint32_t pieces = 1;
    std::size_t bytes = 0;
  };
  using Table = std::map<std::uint64_t, Request>;
  using Questions = std::map<std::uint64_t, std::shared_ptr<Call>>;
  using Calls = std::deque<std::shared_ptr<Call>>;

  void ask(base::Clock::time_point now);
  void ask_about(const std::set<const Call*>& calls);
  void take_missing(std::size_t server, const Answer& answer);
  Calls::const_iterator first_unasked() const;
  base::Clock::duration next_step() const;
  void finish(const std::shared_ptr<Call>& call);
  void time_out(const std::shared_ptr<Call>& call);
  std::string awaited(const Call& call) const;

  const Limits limits_;
  Tally& tally_;
  Calls calls_;                          ///< since they began; the first is not over
  std::vector<Table> waiting_;           ///< by server
  std::vector<Questions> questions_;     ///< by server: who is missing in this call?
  std::vector<std::uint64_t> sequence_;  ///< by server: the last one given
  Window window_;
  base::Clock::duration next_report_;
};

}  // namespace tutti::ps
