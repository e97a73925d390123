#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ps/table.h"

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
  /// To ask where they are to be.
  Locate question() const;
  /// What this server gets.
  std::vector<Table::Content> pieces_on(int server, const Located& located) const;

 private:
  struct Whole {
    Shape shape;
    Tensor elements;
    std::uint32_t pieces = 1;
    std::uint32_t found = 0;
    std::map<std::uint32_t, optimizer::State> states{};
  };

  void add(const Table::Content& one);
  void drop_incomplete();
  void drop_partial_states();

  std::optional<Optimizer> optimizer_;
  std::map<Key, Whole> values_;
};

}  // namespace tutti::ps
