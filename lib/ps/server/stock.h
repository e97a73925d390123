#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ps/server/table.h"

namespace tutti::ps {

/// Says that a key is not restored of which the servers' states have some pieces alone.
void warn_incomplete(const Key& key);

/// Whole values of an earlier job, joined from the states of all its servers, and on their way to
/// the servers of another, which may be more or fewer.
class Stock {
 public:
  /// Throws `invalid_argument` where a server's state is missing or damaged, or of another job than
  /// the others.
  static Stock read(const std::string& folder);

  const std::optional<Optimizer>& optimizer() const { return optimizer_; }
  /// The moments of the job's servers, if the job was synchronous.
  const std::vector<Moment>& moments() const { return moments_; }
  /// The question to the scheduler where the values are to be.
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
