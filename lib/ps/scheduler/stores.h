#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ps/scheduler/registry.h"

namespace tutti::ps {

/// The scheduler's side of a whole job, as a value. `Registry` is the part for one store. All
/// workers create one store after another, and each store begins like the store of another job. It
/// knows the workers' processes, which may end between two stores. The job is over when all of them
/// have ended.
class Stores {
 public:
  using Node = Registry::Node;
  /// Makes a number for a store: not 0, and different from that of every other store.
  using NewId = std::function<std::uint64_t()>;

  Stores(JobSize size, std::uint64_t big_count, Registry::Send send, NewId new_id);

  /// These three do the same as the functions of the same names in Registry.
  void receive(Node node, const ToScheduler& message);
  void lose(Node node, const std::string& reason);
  void stop(const std::string& reason);
  /// Gives up, because too much time has passed since the first process came to this store.
  void give_up_waiting(base::Clock::duration limit);
  /// Call this after each call of `current()`, because that store, and the job, may be over.
  void advance();

  /// The store that exists, or the one that workers may create next.
  Registry& current() { return *registry_; }
  const Registry& current() const { return *registry_; }
  /// Whether some nodes have come to the current store, and wait for the others.
  bool is_gathering() const;
  /// Whether this node is a worker's process, which sends nothing more.
  bool is_process(Node node) const { return processes_.contains(node); }
  /// Whether nothing more will happen.
  bool is_over() const { return over_; }
  /// The reason why the job did not end well. It is empty if the job ended well or goes on.
  const std::string& trouble() const { return trouble_; }
  std::string describe(Node node) const;

 private:
  using Present = Registry::Present;

  void take(Node node, const Register& said);
  void take_process(Node node);
  std::optional<Present> server_between(Node node) const;
  /// The workers of the former store: those whose processes have ended, and those that have not
  /// come to this store yet.
  std::vector<Present> ended() const;
  std::vector<Present> not_come() const;
  void begin_next();
  void call_servers();
  void refuse_without(const std::vector<Present>& gone);
  void end();

  const JobSize size_;
  const std::uint64_t big_count_;
  const Registry::Send send_;
  const NewId new_id_;
  std::unique_ptr<Registry> registry_;
  std::set<Node> processes_;      ///< processes that have sent `Stay` and are there
  std::vector<Present> workers_;  ///< of the current store, once all have come to it
  std::vector<Present> former_;   ///< the workers of the store before; empty: there was none
  std::map<Node, Present> idle_;  ///< servers of the store before that have not registered anew
  bool has_called_ = false;       ///< the idle ones
  bool over_ = false;
  std::string trouble_;
};

}  // namespace tutti::ps
