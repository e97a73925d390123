#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "ps/worker/in_flight_call.h"

namespace tutti::ps {

/// A request of a call that was sent, and is not answered.
struct Sent {
  std::size_t server = 0;
  std::uint64_t sequence = 0;
  std::optional<PieceName> piece{};  ///< none: the request is a setting
};

/// The calls of a worker that have reached their time limit and take part in rounds. Such a call
/// ends in the same way on all workers: either all its pieces are executed, or all fail. So this
/// worker first holds all parts that it sent. While it holds them, no server executes any. If a
/// server had executed a part before, every worker has made the call, and the call goes on.
/// Otherwise the worker gives the call up.
class Recalls {
 public:
  /// Numbers a request, sends it to the server, and returns the number.
  using Send = std::function<std::uint64_t(std::size_t server, Recall said)>;

  /// `rank` is the worker's. `timeout` is the time limit of its calls, which has passed when they
  /// begin here. If a server takes longer than `answer_within`, it is lost.
  Recalls(int rank, base::Clock::duration timeout, base::Clock::duration answer_within, Send send)
      : rank_(rank), timeout_(timeout), answer_within_(answer_within), send_(std::move(send)) {}

  void begin(const std::shared_ptr<InFlightCall>& call, std::vector<Sent> sent,
             base::Clock::time_point now);
  /// Notes that this request of the call was sent after `begin`.
  void note_sent(const InFlightCall& call, Sent one);
  /// Notes that this request of the call is answered. The other requests get as much time again.
  void note_answer(const InFlightCall& call, std::size_t server, std::uint64_t sequence,
                   base::Clock::time_point now);
  /// Takes the answer to a recall. Returns false if it is the answer to something else.
  bool take(std::size_t server, const Answer& answer, base::Clock::time_point now);
  /// Notes that the call is over.
  void forget(const InFlightCall& call);
  /// Whether a call for this key is among them.
  bool concern(const Key& key) const;
  /// Throws `peer_lost`, which ends the store, if a server does not answer in time, or if a call
  /// was executed in part and the rest of it does not follow.
  void look(base::Clock::time_point now);
  std::optional<base::Clock::time_point> due() const;
  void postpone(base::Clock::duration time, base::Clock::time_point now);

 private:
  enum class Stage : std::uint8_t { holding, released, given_up };
  struct Overdue {
    std::shared_ptr<InFlightCall> call;
    std::vector<Sent> sent;   ///< those that were sent and are not answered
    std::size_t asked = 0;    ///< holds that are not answered
    std::set<int> missing{};  ///< workers that have not made it
    Stage stage = Stage::holding;
    bool was_released = false;        ///< once
    base::Clock::time_point until{};  ///< the end of this stage
  };

  Overdue* find(const InFlightCall& call);
  void hold(Overdue& overdue, base::Clock::time_point now);
  void decide(Overdue& overdue, base::Clock::time_point now);
  void give_up(Overdue& overdue, base::Clock::time_point now);
  void tell(const Overdue& overdue, Recall::Step step, const std::optional<Failure>& failure = {});
  Failure failure_of(const Overdue& overdue) const;
  [[noreturn]] void end_store(const Overdue& overdue) const;

  const int rank_;
  const base::Clock::duration timeout_;
  const base::Clock::duration answer_within_;
  const Send send_;
  std::list<Overdue> overdue_;
  std::map<std::pair<std::size_t, std::uint64_t>, std::shared_ptr<InFlightCall>>
      holds_;  ///< by server and number
};

}  // namespace tutti::ps
