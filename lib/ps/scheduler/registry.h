#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ps/protocol/job_size.h"
#include "ps/scheduler/directory.h"

namespace tutti::ps {

/// The scheduler's side of one store of the job, as a value: it receives messages and sends
/// messages. It numbers the nodes, knows when all servers have begun, counts barriers, tells where
/// values are, and knows when the store is over. `Stores` has one for each store.
class Registry {
 public:
  /// The connection of a node. The owner chooses its number.
  using Node = std::uint64_t;
  using Send = std::function<void(Node, const FromScheduler&)>;

  /// `id` is not 0, and differs from that of every other job.
  Registry(JobSize size, std::uint64_t big_count, Send send, std::uint64_t id = 1);

  /// Throws `internal` for a message that breaks the protocol. The node is then lost.
  void receive(Node node, const ToScheduler& message);
  /// The node's connection has ended, or the node is silent. Does nothing for a node that is
  /// unknown or gone. If it is a durable server, the store waits for it.
  void lose(Node node, const std::string& reason);
  /// Notes that a process has ended before all were there. The error of nodes that wait in vain
  /// names it.
  void note_gone(const Lost& lost);
  /// The servers for which the store waits.
  std::vector<int> servers_away() const;
  /// Notes that the server has been away for too long: for `limit`. It is lost.
  void give_up_on_server(int rank, base::Clock::duration limit);
  /// The servers that are away, or that read or write the state with which they begin. Call it once
  /// all nodes have come.
  std::vector<int> servers_not_ready() const;
  /// Ends the job, because the servers have not begun within this time.
  void give_up_beginning(base::Clock::duration limit);
  /// The workers for which others wait in a barrier. Empty if no worker waits.
  std::vector<int> awaited_in_barrier() const;
  /// Ends the barrier, because the awaited workers have not come within this time. It ends for the
  /// workers that have come, and for those that come late.
  void give_up_barrier(base::Clock::duration limit);
  /// Notes that a process of the job has ended. If not all nodes are there, they never will be. The
  /// nodes that are there are told so as soon as one of them is a worker. If no worker ever comes,
  /// nobody waits.
  void note_end(const Failure& failure);
  /// Gives up, because too much time has passed and not all nodes are there. Tells the nodes that
  /// are there which ones are missing, and which came and left.
  void give_up_waiting();
  /// Tells every node that SIGTERM or a failure ends the scheduler.
  void stop(const std::string& reason);
  /// Ends the store: tells every node why.
  void refuse_all(const Failure& failure);

  bool is_complete() const { return complete_; }
  bool has_begun() const { return begun_; }
  /// Whether nothing more will happen.
  bool is_over() const { return over_; }
  /// The reason why the job did not end well. It is empty if the job ended well or goes on.
  const std::string& trouble() const { return trouble_; }
  /// The name of a node: "worker 1". A node that has no rank yet is "a node".
  std::string describe(Node node) const;
  /// A node that has registered, and is not lost.
  struct Present {
    Node node = 0;
    Role role = Role::worker;
    int rank = 0;
    bool is_durable = false;
    std::uint64_t membership = 0;  ///< of a worker
    std::string place{};           ///< " (process 12 on node1)"
  };
  /// The nodes of this role that are there, by rank.
  std::vector<Present> present(Role role) const;

 private:
  struct Member {
    Register said;
    int rank = 0;
    bool ready = false;     ///< for a server: whether the state with which it begins is on its disk
    int barriers = 0;       ///< the number of barriers to which it has come
    bool left = false;      ///< has said goodbye
    bool finished = false;  ///< needs nobody any more
  };

  void on(Node node, const Register& said);
  void on(Node node, const Ready&);
  void on(Node node, const BarrierArrival&);
  void on(Node node, const Locate& asked);
  void on(Node node, const LocateAll&);
  void on(Node node, const Goodbye&);
  void on(Node node, const Finished&);
  void on(Node node, const Stopping& stopping);
  void on(Node node, const Stay&);
  void on(Node node, const ReadOn& asked);

  const Member& member(Node node) const;
  std::optional<Failure> objection(const Register& said) const;
  std::optional<Failure> objection_to_more(const Register& said) const;
  std::optional<Failure> objection_to_return(const Register& said) const;
  bool is_awaited(const Register& said) const;
  void lose_former(const Register& said);
  void welcome_back(Node node, const Register& said);
  std::optional<Failure> adopt_held();
  std::string doubt_about_state() const;
  void announce(const Lost& lost);
  std::optional<Failure> disagreement(const Register& said) const;
  std::optional<Failure> disagreement_of_states(const Register& said) const;
  std::uint64_t job_to_come_back_with() const { return begun_ ? id_ : begins_with_; }
  int free_rank(const Register& said) const;
  const Member* find(Role role, int rank) const;
  int count(Role role) const;
  void send_all(const FromScheduler& message);
  std::string missing() const;
  std::vector<int> missing(Role role) const;
  void refuse_after_end();
  void gather();
  void welcome_workers();
  Welcome welcome() const;
  Welcome::Locality place_among_workers(const Member& worker) const;
  void end_barrier();
  void end_if_finished();

  const JobSize size_;
  const Send send_;
  const std::uint64_t id_;
  Directory directory_;
  std::map<Node, Member> members_;
  std::set<Node> in_barrier_;
  std::map<int, BarrierRelease> given_up_;  ///< barriers, by a worker's number of them
  std::map<int, Lost> away_;                ///< durable servers that are waited for, by rank
  std::optional<Failure> end_;              ///< the first that was noted
  std::deque<std::string> gone_;            ///< the last that came, and went before all were there
  /// Workers of whose loss a returning server has not heard.
  std::vector<Lost> lost_workers_;
  Register kind_;                  ///< the kind of all workers' stores
  std::uint64_t begins_with_ = 0;  ///< the job whose state all servers begin with; 0: none
  std::string doubt_;              ///< a doubt about that state
  bool complete_ = false;          ///< all have come
  bool begun_ = false;             ///< all servers were ready
  bool over_ = false;
  std::string trouble_;
};

}  // namespace tutti::ps
