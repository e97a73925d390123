#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "net/handshake.h"

namespace tutti::net {

/// Does the same as `prove_to`, step by step, for a caller that has other work meanwhile.
class Approach {
 public:
  Approach(std::vector<Candidate> candidates, const Identity& me, int listener_rank);
  ~Approach();
  Approach(Approach&&) noexcept;
  Approach& operator=(Approach&&) noexcept;

  /// Never waits. Returns nothing if it has not succeeded yet; then call it again soon. Throws the
  /// same errors as `prove_to`, except for `timeout`.
  std::optional<ProvenPeer> advance();

 private:
  friend ProvenPeer prove_to(std::vector<Candidate> candidates, const Identity& me,
                             int listener_rank, const base::Patience& patience);
  class Search;
  std::unique_ptr<Search> search_;
};

}  // namespace tutti::net
