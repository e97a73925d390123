#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ps/server/table.h"

namespace tutti::ps {

/// Logs that a key is not restored, because the servers' states have only some of its pieces.
void warn_incomplete(const Key& key);

/// Whole values of an earlier job, joined from the states of all its servers. They are on their way
/// to the servers of another job, which may be more or fewer.
class Stock {
 public:
  /// Throws `invalid_argument` if a server's state is missing or damaged, or belongs to another job
  /// than the others.
  static Stock read(const std::string& folder);

  const std::optional<Optimizer>& optimizer() const { return optimizer_; }
  /// The moments of the job's servers, if the job was synchronous.
  const std::vector<Moment>& moments() const { return moments_; }
  /// The question to the scheduler where the values are to go.
  Locate question() const;
  /// The pieces that this server gets. Throws `internal` if `located` does not answer the question.
  std::vector<Table::PieceContent> pieces_on(int server, const Located& located) const;

 private:
  struct Whole {
    Shape shape;
    Tensor elements;
    std::optional<optimizer::State> state{};
  };
  /// A piece, and the rule that its server had.
  struct Part {
    Value::Content content;
    std::string rule;
  };
  struct InPieces {
    std::uint32_t pieces = 1;
    std::map<std::uint32_t, Part> parts{};
  };
  using Found = std::map<Key, InPieces>;

  static void add(const Table& table, Found& found);
  void check_answer(const Located& located) const;
  void join(Found found);
  Whole joined(const InPieces& value) const;
  std::optional<optimizer::State> joined_state(const InPieces& value) const;

  std::optional<Optimizer> optimizer_;
  std::vector<Moment> moments_;
  std::map<Key, Whole> values_;
};

}  // namespace tutti::ps
