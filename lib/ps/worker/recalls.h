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
  std::optional<PieceName> piece{};  ///< none: of a setting
};

/// The calls of a worker that have reached their time limit and take part in rounds. Such a call
/// ends alike on all workers: either all its pieces are executed, or all fail. So this worker first
/// holds all parts that it sent. While it holds them, no server executes any. If a server had
/// executed a part before, every worker has made the call, and the call goes on. Otherwise the
/// worker gives the call up.
class Recalls {
 public:
  /// Numbers it, sends it to the server, and returns its number.
  using Send = std::function<std::uint64_t(std::size_t server, Recall said)>;

  /// `rank`: the worker's. `timeout`: of its calls, which has passed when they begin here.
  /// `answer_within`: a server that takes longer is lost.
  Recalls(int rank, base::Clock::duration timeout, base::Clock::duration answer_within, Send send)
      : rank_(rank), timeout_(timeout), answer_within_(answer_within), send_(std::move(send)) {}

  void begin(const std::shared_ptr<InFlightCall>& call, std::vector<Sent> sent,
             base::Clock::time_point now);
  /// This one of its requests was sent after `begin`.
  void note_sent(const InFlightCall& call, Sent one);
  /// This one of its requests is answered: the rest has as much time again.
  void note_answer(const InFlightCall& call, std::size_t server, std::uint64_t sequence,
                   base::Clock::time_point now);
  /// Takes the answer to a recall. False: it is of something else.
  bool take(std::size_t server, const Answer& answer, base::Clock::time_point now);
  /// The call is over.
  void forget(const InFlightCall& call);
  /// A call for this key is among them.
  bool concern(const Key& key) const;
  /// Throws `peer_lost`, which ends the store, where a server does not answer in time, or a call
  /// was executed in part and the rest of it does not follow.
  void look(base::Clock::time_point now);
  std::optional<base::Clock::time_point> due() const;
  void postpone(base::Clock::duration time, base::Clock::time_point now);

 private:
  enum class Stage : std::uint8_t { holding, released, given_up };
  struct Overdue {
    std::shared_ptr<InFlightCall> call;
    std::vector<Sent> sent;   ///< and not answered
    std::size_t asked = 0;    ///< holds that are not answered
    std::set<int> missing{};  ///< workers that have not made it
    Stage stage = Stage::holding;
    bool was_released = false;        ///< once
    base::Clock::time_point until{};  ///< of this stage
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
