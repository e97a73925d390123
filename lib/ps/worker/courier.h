#pragma once
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "net/approach.h"
#include "ps/link/channel.h"
#include "ps/link/connection_to_server.h"
#include "ps/link/scheduler_link.h"
#include "ps/protocol/compression.h"
#include "ps/worker/membership.h"
#include "ps/worker/outbox.h"
#include "ps/worker/outstanding_requests.h"
#include "ps/worker/worker.h"

namespace tutti::ps {

/// The work of the worker's thread: it sends the submitted calls, and completes them when the
/// answers come. Tensors leave in the order of their priority. A call that waits for its placement
/// holds up the calls after it. A setting waits until all tensors before it have left, so that it
/// overtakes none. Once such a call or setting is the next to leave, it waits no longer than a call
/// may take.
class Courier {
 public:
  Courier(Worker& worker, const Job& job, const Options& options, Membership& membership);

  /// Blocks until all nodes are there and all servers are reached.
  Welcome join(bool asynchronous, int staleness);
  /// The function of the thread. If something ends the job for this worker, all calls fail with
  /// that error.
  void run() noexcept;
  /// The number of keys that it knows.
  std::size_t keys() const { return placed_.size(); }
  void abandon();

 private:
  /// A call that waits for all workers.
  struct Meeting {
    std::shared_ptr<base::Completion> completion{};
    base::Clock::time_point begun{};
    base::Clock::duration report_after{};
  };

  Welcome register_worker(bool asynchronous, int staleness);
  void connect(const Welcome& welcome);
  void reach(std::size_t server, base::Clock::time_point deadline);
  net::Candidate candidate_for(std::size_t server) const;
  net::Candidate start_candidate_for(const Welcome::ServerAddress& place) const;
  net::Identity identity(std::size_t server) const;
  net::Approach approach(std::size_t server) const;
  Channel::Terms terms_for(const Welcome::ServerAddress& server) const;
  void wait_for(std::size_t server, const std::string& why);
  void call_absent(base::Clock::time_point now);
  void loop();
  void on_event(std::uint64_t token);
  void hear_scheduler(const FromScheduler& message);
  void hear(std::size_t server);
  void take(std::size_t server, const Answer& answer);
  void place(const Placement& placement);
  void on_lost(const Lost& lost);
  void on_away(const Away& away);
  void on_returned(const Returned& returned);
  std::exception_ptr with_calls(const std::exception_ptr& failure) const;
  void end_with(const std::exception_ptr& cause) noexcept;
  void note_ended() const;

  void take_posted();
  void locate(const TaskList& list);
  void locate(const Change& change);
  void ask_for(const std::vector<Locate::Value>& values);
  void advance();
  void hold_up();
  void postpone(base::Clock::duration time);
  void look_at_queue(base::Clock::time_point now);
  std::string awaited_by_queue() const;
  std::string under_way() const;
  void give_up_waiting();
  /// Sends the calls of the list. Returns false if their keys are not placed yet.
  bool send(TaskList& list);
  bool send(const Barrier& barrier);
  bool send(Change& change);
  bool send(Survey& survey);
  bool send(const Leaving& leaving);
  std::shared_ptr<InFlightCall> new_call(const std::shared_ptr<base::Completion>& completion) const;
  bool has_sent_tasks() const;
  bool are_placed(const std::map<Key, optimizer::State>& states) const;
  void send_setting(const Setting& setting, std::size_t server,
                    const std::shared_ptr<InFlightCall>& call);
  void send_states(const Change& change, const std::shared_ptr<InFlightCall>& call);
  void send_survey(const Survey& survey);
  void add_task(Task task, const std::shared_ptr<base::Completion>& completion);
  bool takes_more(std::size_t server);
  void fill(std::size_t server);
  std::size_t send_piece(std::size_t server, const Outbox::Entry& entry);
  std::size_t withdraw(std::size_t server, const Outbox::Entry& entry);
  void send_about(std::size_t server, const ToServer& said);
  void ask_to_read_on();
  std::size_t send_to(std::size_t server, const ToServer& message, std::size_t answer_bytes = 0,
                      bool stays = false);
  void finish_leaving();
  base::Clock::time_point wake_up_by() const;
  void look(base::Clock::time_point now);
  void look(Meeting& meeting, base::Clock::time_point now) const;
  static void finish(Meeting& meeting, const std::exception_ptr& failure);
  void flush();

  Worker& worker_;
  Membership& membership_;
  const Job job_;
  const std::string interface_;
  const bool encrypts_;
  const base::Clock::duration patience_;  ///< with a server that is to come back
  const Channel::Terms terms_;
  net::Poller poller_;
  SchedulerLink scheduler_;
  std::uint64_t job_number_ = 0;                ///< `Welcome::job`
  std::vector<Welcome::ServerAddress> places_;  ///< of the servers
  std::vector<std::unique_ptr<ConnectionToServer>> servers_;
  std::vector<Outbox> outboxes_;  ///< by server
  /// The number of the last request that a server has to read, and of the last one that the
  /// scheduler was told.
  struct Recalled {
    std::uint64_t last = 0;
    std::uint64_t said = 0;
  };
  std::vector<Recalled> recalled_;  ///< by server
  std::unique_ptr<OutstandingRequests> requests_;
  Compressor compressor_;
  const Limits limits_;
  int rank_ = 0;
  bool asynchronous_ = false;
  std::map<Key, Places> placed_;
  std::set<Key> asked_;          ///< keys whose placement is on its way
  bool all_are_placed_ = false;  ///< the scheduler has told of all there are
  std::deque<WorkItem> queue_;
  /// The call at the front of the queue, which cannot be sent yet.
  struct HeldUp {
    bool by_scheduler = false;  ///< has yet to say where values are; else servers read too little
    base::Clock::time_point since{};
    base::Clock::duration report_after{};
  };
  std::optional<HeldUp> held_up_;
  Meeting barrier_;
  Meeting leaving_;
  /// A server whose connection has ended. If another process was lost first, perhaps the scheduler,
  /// the worker learns that in a moment.
  struct Broken {
    std::string what;
    base::Clock::time_point until{};
  };
  std::optional<Broken> broken_;
  /// A server that is to come back: it has a state, or only the connection has ended.
  struct Absent {
    std::string why{};
    base::Clock::time_point since{};
    base::Clock::time_point until{};
    std::string limit{};  ///< the option that sets the limit, with its value
    std::optional<net::Approach> call{};
    base::Clock::time_point due{};  ///< the next call, or the end of one that nobody answers
    std::string last_call{};        ///< the outcome
  };
  bool meet(std::size_t server, Absent& absent, base::Clock::time_point now);
  std::map<std::size_t, Absent> absent_;
  base::Clock::time_point absent_since_{};  ///< the time since which at least one is absent
  std::exception_ptr bad_news_;             ///< heard while a server was called
  /// Whether there is more to send at once, after others have had their turn.
  bool has_more_to_send_ = false;
  /// Whether a loss ends the job; the scheduler tells all workers of it.
  bool job_is_lost_ = false;
  /// Whether a server has told of a loss; the scheduler ends this store because of it.
  bool loss_is_known_ = false;
  bool finished_ = false;
  bool over_ = false;
};

}  // namespace tutti::ps
