#include "p2p/eager_sends.h"

namespace tutti::p2p {

void EagerSends::add(int rank, std::uint64_t number, std::size_t bytes) {
  waiting_[{rank, number}] = bytes;
  bytes_[static_cast<std::size_t>(rank)] += bytes;
}

void EagerSends::note_answered(int rank, std::uint64_t number) {
  const auto found = waiting_.find({rank, number});
  if (found == waiting_.end()) return;
  bytes_[static_cast<std::size_t>(rank)] -= found->second;
  waiting_.erase(found);
}

}  // namespace tutti::p2p
