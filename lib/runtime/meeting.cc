#include "runtime/meeting.h"

#include <algorithm>
#include <utility>

namespace tutti::runtime {

Meeting::Meeting(const mpi::Communicator& communicator, int attempt, int stores,
                 std::chrono::milliseconds limit, mpi::Communicator::Look look)
    : communicator_(communicator),
      limit_(limit),
      look_(std::move(look)),
      mine_{attempt, 0, stores, 0} {}

bool Meeting::all_begin() {
  try {
    communicator_.all_gather("", limit_, "every rank to create its store", look_,
                             {mine_, [this](const auto& stamps) { check_beginning(stamps); }});
    return true;
  } catch (const OutOfStep&) {
    return false;
  }
}

void Meeting::check_beginning(const std::vector<mpi::Stamp>& stamps) {
  begun_ = stamps;
  for (const mpi::Stamp& one : stamps) {
    if (one.step != 0) throw OutOfStep{};
  }
}

void Meeting::begin() {
  while (!all_begin()) {
  }
  for (const mpi::Stamp& one : begun_) stores_ = std::max(stores_, one.stores);
}

std::vector<std::string> Meeting::all_gather(const std::string& mine,
                                             const std::string& waiting_for) {
  ++mine_.step;
  return communicator_.all_gather(mine, limit_, waiting_for, look_,
                                  {mine_, [this](const auto& stamps) { check(stamps); }});
}

void Meeting::check(const std::vector<mpi::Stamp>& stamps) const {
  const mpi::Stamp& own = stamps[static_cast<std::size_t>(communicator_.rank())];
  for (std::size_t rank = 0; rank < stamps.size(); ++rank) {
    const mpi::Stamp& one = stamps[rank];
    const bool in_step =
        one.attempt == begun_[rank].attempt && one.step == own.step && one.round == own.round;
    if (!in_step) throw OutOfStep{};
  }
}

}  // namespace tutti::runtime
