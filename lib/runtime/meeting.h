#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "mpi/communicator.h"

namespace tutti::runtime {

/// All ranks' way through one `create`: a number of all_gathers, one after the other, on a
/// communicator that outlives it.
///
/// A rank that gives up, or throws alone, leaves the others in an all_gather. It takes part in that
/// all_gather with the first one of its next `create`. So each rank sends its attempt and its step
/// with every text. All ranks get the same texts, and conclude the same: a rank that sees that
/// another one began anew begins anew, too, and all repeat the first step until every rank is
/// there.
class Meeting {
 public:
  /// Thrown on a rank that must begin anew. `with_mpi_world` catches it.
  struct OutOfStep {};

  /// `attempt`: this process's number for it, never used before. `stores`: how many it has made.
  Meeting(const mpi::Communicator& communicator, int attempt, int stores,
          std::chrono::milliseconds limit, mpi::Communicator::Look look);

  /// Collective, blocking: until all ranks are at the beginning of a `create`. Throws `timeout`,
  /// and what `look` throws.
  void begin();
  /// Collective, blocking, after `begin`: everyone's text, by rank. Throws OutOfStep, too.
  std::vector<std::string> all_gather(const std::string& mine, const std::string& waiting_for);
  /// The most stores that any rank had made before.
  int stores() const { return stores_; }

 private:
  bool all_begin();
  void check_beginning(const std::vector<mpi::Stamp>& stamps);
  void check(const std::vector<mpi::Stamp>& stamps) const;

  const mpi::Communicator& communicator_;
  const std::chrono::milliseconds limit_;
  const mpi::Communicator::Look look_;
  mpi::Stamp mine_;
  std::vector<mpi::Stamp> begun_;  ///< everyone's, when all were at the beginning
  int stores_ = 0;
};

}  // namespace tutti::runtime
