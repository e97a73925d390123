#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/directory.h"

namespace tutti::ps {

/// How many processes a job has beside the scheduler.
struct Company {
  int workers = 1;
  int servers = 1;
};

/// The scheduler's side of the protocol, as a value: messages go in, messages come out. It numbers
/// the nodes, counts barriers, says where values are, and knows when the job is over.
class Registry {
 public:
  /// A node's connection, by a number that its owner chose.
  using Node = std::uint64_t;
  using Send = std::function<void(Node, const FromScheduler&)>;

  Registry(Company company, std::uint64_t big_count, Send send);

  /// Throws `internal` for what no node says that follows the protocol; it is lost then.
  void receive(Node node, const ToScheduler& message);
  /// The node's connection has ended, or the node says nothing any more. For a node that is unknown
  /// or gone this does nothing.
  void lose(Node node, const std::string& reason);
  /// Too much time has passed, and not all are there: tells those that are who is missing.
  void give_up_waiting();
  /// SIGTERM or a failure of its own ends the scheduler: tells every node.
  void stop(const std::string& reason);

  bool is_complete() const { return complete_; }
  /// Nothing more will happen.
  bool is_over() const { return over_; }
  /// Why the job did not end well; empty: it did, or goes on.
  const std::string& trouble() const { return trouble_; }
  /// "worker 1"; a node that has no rank yet is "a node".
  std::string describe(Node node) const;

 private:
  struct Member {
    Register said;
    int rank = 0;
    bool left = false;      ///< has said goodbye
    bool finished = false;  ///< needs nobody any more
  };

  void on(Node node, const Register& said);
  void on(Node node, const BarrierAsked&);
  void on(Node node, const Locate& asked);
  void on(Node node, const LocateAll&);
  void on(Node node, const Goodbye&);
  void on(Node node, const Finished& said);

  const Member& member(Node node) const;
  std::optional<Failure> objection(const Register& said) const;
  std::optional<Failure> disagreement(const Register& said) const;
  int free_rank(const Register& said) const;
  const Member* find(Role role, int rank) const;
  int count(Role role) const;
  void send_all(const FromScheduler& message);
  void refuse_all(const Failure& failure);
  void welcome_all();
  void end_barrier();
  void end_if_finished();

  const Company company_;
  const Send send_;
  Directory directory_;
  std::map<Node, Member> members_;
  std::set<Node> in_barrier_;
  bool complete_ = false;
  bool over_ = false;
  std::string trouble_;
};

}  // namespace tutti::ps
