#pragma once
#include <cstdint>
#include <list>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "ps/server/tombstones.h"
#include "ps/server/value.h"

namespace tutti::ps {

/// One piece of one value on its server, and the requests for it. Each worker has a queue, in which
/// its requests wait in the order in which it made them. A round consists of the contributions at
/// the heads of all queues. So a worker's second push never stands for another worker's first, and
/// a pull follows the worker's own last push. A round that a worker gives up fails for all workers:
/// at once for those that have come to it, and with its next contribution for each other worker.
class Piece {
 public:
  /// Counts over all pieces of a server.
  struct Waiting {
    /// By worker: the bytes of its contributions that wait in this server's memory.
    std::vector<std::uint64_t> bytes;
    std::size_t held = 0;  ///< contributions that their workers hold
  };

  /// The rules, and the counts of all pieces together, outlive the piece.
  Piece(const PieceName& name, const Rules& rules, Waiting& waiting);

  /// Throws `internal` if the number of elements is not the one that the request gives.
  void add(int worker, const Contribution& said);
  void add(int worker, const Pull& pull);
  void add(int worker, const PullState& pull);
  void add(int worker, const Withdrawal& said);
  /// Holds, releases or gives up a contribution. Does nothing if it is answered. Returns the
  /// workers for whose parts it waits, or nothing if it waits for nobody.
  std::optional<Failure> recall(int worker, const Recall& said);
  /// Executes the requests that can be executed, and answers through `rules.send`. Call this when
  /// requests have been added, and when a worker has become absent.
  void advance();
  /// Whether others wait and this worker has brought nothing.
  bool waits_for(int worker) const;
  /// The workers for whose parts this worker's first request waits, or nothing if it waits for
  /// nobody.
  std::optional<Failure> missing_for(int worker) const;
  void take_optimizer() { value_.take_optimizer(); }
  void set_state(std::optional<optimizer::State> state) { value_.set_state(std::move(state)); }

  std::optional<Value::Content> content() const { return value_.content(); }
  /// The number of executed rounds, if the value is stored here. Otherwise 0.
  std::uint64_t rounds() const { return value_.is_stored() ? rounds_ : 0; }
  void inherit(Value::Content content) { value_.inherit(std::move(content)); }
  /// Save and load the piece, with the requests that wait.
  void save(ArchiveWriter& to) const;
  void load(ArchiveReader& from);

 private:
  struct Queued {
    std::variant<Contribution, Pull, PullState, Withdrawal> said;
    std::vector<std::byte> data{};  ///< keeps memory to which a contribution refers
    bool is_held = false;           ///< its worker may give it up
    std::optional<Failure> given_up{};
  };
  /// There is a queue for each worker of each piece, and most are empty. An empty list takes no
  /// memory of its own.
  using Queue = std::list<Queued>;

  static std::uint64_t bytes_here(const Queued& request);
  static std::uint64_t sequence_of(const Queued& request);
  static std::optional<Kind> kind_of(const Queued& request);
  bool is_collective(const Queued& request) const;
  bool is_in_round(std::size_t worker) const;
  bool is_held() const;
  void set_held(Queued& request, bool is_held);
  std::optional<Failure> given_up(std::size_t worker) const;
  bool comes_no_more(std::size_t worker) const;
  std::vector<int> absent_from(std::size_t round) const;
  std::optional<Failure> missing_for(std::size_t worker, Queue::const_iterator request) const;
  bool holds_up(std::size_t other, std::size_t worker) const;
  bool is_too_far_ahead(std::size_t worker) const;
  bool bury(int worker);
  bool advance_alone(int worker);
  bool fail_given_up();
  bool advance_round();
  Value::Result execute_round();
  template <typename Execute>
  Value::Result result_of(const Execute& execute) const;
  bool fail_for_absent();
  void answer(int worker, const Value::Result& result);

  const Rules& rules_;
  Waiting& waiting_;
  Value value_;
  std::vector<Queue> queues_;  ///< by worker
  Tombstones tombstones_;
  /// By worker: the number of its asynchronous pushes that were answered.
  std::vector<std::uint64_t> pushes_;
  std::uint64_t rounds_ = 0;  ///< the number of rounds that were executed
};

}  // namespace tutti::ps
