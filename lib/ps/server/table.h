#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ps/server/piece.h"
#include "ps/server/settings_queue.h"

namespace tutti::ps {

/// A server's side of the protocol, as a value: it receives requests and sends answers. It holds
/// the pieces that are on this server.
class Table {
 public:
  /// The table itself fills `rules.absent` and `rules.optimizer`.
  explicit Table(Rules rules);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// Receives a request. If the request was received before, does nothing. If it breaks the
  /// protocol, the answer has the number 0 and the reason. The worker is then lost to the others,
  /// and its later requests are ignored.
  void receive(int worker, const ToServer& request);
  /// Notes that the worker brings nothing more. Rounds that need it fail with this failure. Its
  /// messages are ignored from now on, unless it has left (`aborted`).
  void lose(int worker, const Failure& failure);

  /// The bytes of the worker's contributions that wait for other workers in this server's memory.
  std::uint64_t waiting_bytes(int worker) const {
    return waiting_.bytes.at(static_cast<std::size_t>(worker));
  }
  /// The number of the worker's requests that are not answered.
  std::uint64_t waiting_requests(int worker) const {
    const auto at = static_cast<std::size_t>(worker);
    return received_.at(at) - answered_.at(at);
  }
  /// The number of the worker's last request.
  std::uint64_t received(int worker) const {
    return received_.at(static_cast<std::size_t>(worker));
  }
  /// Whether others wait for something that this worker has not brought yet.
  bool waits_for(int worker) const;

  /// The number of keys that have pieces here.
  std::size_t keys() const { return places_.size(); }
  const std::optional<Optimizer>& optimizer() const { return rules_.optimizer; }
  /// A piece that another job can take over.
  struct PieceContent {
    PieceName name;
    Value::Content content;
  };
  std::vector<PieceContent> contents() const;
  /// The number of rounds of the value here that has been in most rounds.
  std::uint64_t rounds() const;
  /// Whether all workers have left, and all their requests are done.
  bool is_finished() const;
  /// Takes over the values of an earlier job. Call it before the first request.
  void inherit(const std::optional<Optimizer>& optimizer, std::vector<PieceContent> contents);
  /// Save and load the whole table. Only a table with the same rules can load it.
  void save(ArchiveWriter& to) const;
  void load(ArchiveReader& from);

 private:
  /// A state that worker 0 brings before it sends LoadStates.
  struct BroughtState {
    PieceName piece;
    optimizer::State state;
  };

  void on(int worker, const Contribution& said);
  void on(int worker, const Pull& pull);
  void on(int worker, const PullState& pull);
  void on(int worker, const Withdrawal& said);
  void on(int worker, const PullOptimizer& pull);
  void on(int worker, const SetState& set);
  void on(int worker, const SetOptimizer& set);
  void on(int worker, const SetCompression& set);
  void on(int worker, const LoadStates& load);
  void on(int worker, const FindMissing& asked);
  void on(int worker, const Recall& said);
  void on(int worker, const Goodbye&);

  std::optional<Failure> apply(const SetOptimizer& set);
  std::optional<Failure> apply(const SetCompression&);
  std::optional<Failure> apply(const LoadStates& load);
  std::vector<BroughtState> take_brought(std::uint64_t before);
  template <typename Request>
  void add_to_piece(int worker, const Request& request);
  void add_setting(int worker, const Setting& setting);
  template <typename Work>
  void for_pieces(const Work& work);
  bool is_new(int worker, std::uint64_t sequence);
  bool hears(int worker) const;
  void refuse(int worker, const std::string& why);
  Piece* find_held(const PieceName& name) const;
  Piece& find(const PieceName& name);

  Rules rules_;
  std::vector<std::uint64_t> received_;  ///< by worker: the number of its last request
  std::vector<std::uint64_t> answered_;  ///< by worker: the number of its answered requests
  Piece::Waiting waiting_;
  SettingsQueue settings_;
  struct HeldPieces {
    std::uint32_t pieces = 1;
    std::map<std::uint32_t, std::unique_ptr<Piece>> held;  ///< by index
  };
  std::map<Key, HeldPieces> places_;
  std::map<std::uint64_t, BroughtState> brought_;  ///< by sequence
};

}  // namespace tutti::ps
