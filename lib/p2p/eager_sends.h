#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tutti::p2p {

/// The sends of this rank that carried their elements along with their announcement, and that their
/// receivers have not answered. Their elements lie in the carrier's buffers or with the receiver.
class EagerSends {
 public:
  /// Larger tensors wait for their receives. A hop between two processes takes far longer than two
  /// more copies of this many bytes.
  static constexpr std::size_t largest = std::size_t{16} << 10;
  /// The most bytes under way to one rank. A carrier's buffers have room for them.
  static constexpr std::size_t most_bytes = std::size_t{64} << 10;

  explicit EagerSends(int ranks) : bytes_(static_cast<std::size_t>(ranks)) {}

  bool has_room(int rank, std::size_t bytes) const {
    return bytes <= largest && bytes_[static_cast<std::size_t>(rank)] + bytes <= most_bytes;
  }
  void add(int rank, std::uint64_t number, std::size_t bytes);
  /// Notes that the receiver has answered this send. Does nothing for a send that is not eager.
  void note_answered(int rank, std::uint64_t number);

 private:
  std::vector<std::size_t> bytes_;                                ///< by rank
  std::map<std::pair<int, std::uint64_t>, std::size_t> waiting_;  ///< by rank and number
};

}  // namespace tutti::p2p
