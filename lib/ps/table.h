#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ps/piece.h"
#include "ps/settings.h"

namespace tutti::ps {

/// A server's side of the protocol, as a value: requests go in, answers come out. Holds the pieces
/// that are on this server.
class Table {
 public:
  /// The table itself fills `rules.absent` and `rules.optimizer`.
  explicit Table(Rules rules);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// A request that was received before does nothing. Throws `internal` for what no worker says
  /// that follows the protocol; its connection is of no use then.
  void receive(int worker, const ToServer& request);
  /// The worker brings nothing more; what needs it fails with this.
  void lose(int worker, const Failure& failure);

 private:
  void on(int worker, const Contribution& said);
  void on(int worker, const Pull& pull);
  void on(int worker, const SetOptimizer& set);
  void on(int worker, const Goodbye&);

  bool is_new(int worker, std::uint64_t sequence);
  Piece& find(const PieceName& name);
  void advance_all();

  Rules rules_;
  std::vector<std::uint64_t> received_;  ///< by worker: its last sequence
  Settings settings_;
  struct Place {
    std::uint32_t pieces = 1;
    std::map<std::uint32_t, std::unique_ptr<Piece>> held;  ///< by index
  };
  std::map<Key, Place> places_;
};

}  // namespace tutti::ps
