#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "mpi/communicator.h"

namespace tutti::runtime {

/// The way of all ranks through one `create`: several all_gathers, one after the other, on a
/// communicator that outlives the `create`.
///
/// A rank that gives up, or that throws alone, leaves the other ranks in an all_gather. The first
/// all_gather of its next `create` completes theirs. So each rank sends the number of its attempt
/// and of its step with every text. All ranks get the same texts, and draw the same conclusion: if
/// one rank began anew, all begin anew, and repeat the first step until every rank is there.
class Meeting {
 public:
  /// Thrown on a rank that must begin anew. `with_mpi_world` catches it.
  struct OutOfStep {};

  /// `attempt` is a number that this process has never used before. `stores` is the number of
  /// stores that it has made over these ranks.
  Meeting(const mpi::Communicator& communicator, int attempt, int stores,
          std::chrono::milliseconds limit, mpi::Communicator::Look look);

  /// Collective. Blocks until all ranks are at the beginning of a `create`. Throws `timeout`, and
  /// the errors that `look` throws.
  void begin();
  /// Collective, blocking; call it after `begin`. Returns the text of each rank. Throws the same
  /// errors as `begin`, and OutOfStep.
  std::vector<std::string> all_gather(const std::string& mine, const std::string& waiting_for);
  /// The largest number of stores that any rank had made before.
  int stores() const { return stores_; }

 private:
  bool all_begin();
  void check_beginning(const std::vector<mpi::Stamp>& stamps);
  void check(const std::vector<mpi::Stamp>& stamps) const;

  const mpi::Communicator& communicator_;
  const std::chrono::milliseconds limit_;
  const mpi::Communicator::Look look_;
  mpi::Stamp mine_;
  std::vector<mpi::Stamp> begun_;  ///< the stamps of all ranks at the beginning
  int stores_ = 0;
};

}  // namespace tutti::runtime
