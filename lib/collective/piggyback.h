#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reduce/reduce.h"

namespace tutti::collective {

/// What a gate carries between nodes, and which node sends which of it to whom: in round j each
/// sends one message to the node 2^j further on, or, of a power of two of nodes, to the one whose
/// number differs in bit j alone. After ceil(log2 n) rounds everybody has heard from everybody.
///
/// Pure: it computes what messages hold, and sends none. Not thread-safe.
class Piggyback {
 public:
  enum class Kind : std::uint8_t {
    none,
    /// Every node's block goes to every node: a message has the blocks that its sender has so far
    /// and its receiver lacks.
    gathered,
    /// Every node gets the blocks' sum. A message has the sum of its sender's so far, which is a
    /// branch of the canonical tree over nodes. Of a power of two of nodes alone.
    summed,
    /// One node's block goes to every node. A message has it, or nothing.
    passed_on,
  };

  /// What a message has before its blocks, at the most.
  static constexpr std::size_t header_bytes = 16;

  struct Load {
    Kind kind = Kind::none;
    std::span<const std::byte> block;  ///< equally long on every node
    reduce::Kernel kernel{};           ///< summed: of equal dtypes; the last sum divides
    std::size_t root = 0;              ///< passed on: whose block
  };

  struct Round {
    std::size_t to = 0;  ///< nodes
    std::size_t from = 0;
    /// From here on both sides reckon how far they are from others: the sender has the blocks of
    /// less distance, and those that it sends are that much further from the receiver.
    std::size_t distance = 0;
    std::size_t blocks = 0;  ///< that are sent of all gathered ones
  };

  Piggyback(std::size_t nodes, std::size_t me);

  /// Whether so many nodes can carry sums.
  static bool may_sum(std::size_t nodes);
  /// The largest block with which no message is longer than MPI sends at once.
  static std::size_t most_block(Kind kind, std::size_t nodes);
  /// What it holds.
  static std::size_t buffer_bytes(std::size_t nodes);

  const std::vector<Round>& rounds() const { return rounds_; }
  /// Takes a copy of the block, which is no longer than `most_block`.
  void load(const Load& load);
  Kind kind() const { return kind_; }
  /// Of this round's message, when all rounds before it are over.
  std::span<const std::byte> outgoing(const Round& round) const;
  /// What this round's message brought, of the length that its sender sent.
  void take(const Round& round, const std::byte* message);

  /// Behind the last round, until the next load. Gathered: a node's block, which the caller may
  /// overwrite.
  std::byte* block(std::size_t node) { return place(distance_to(node)); }
  /// Summed or passed on: the result, as long as the block.
  const std::byte* result() const { return blocks_.data(); }

 private:
  std::size_t distance_to(std::size_t node) const;
  std::byte* place(std::size_t distance) { return blocks_.data() + distance * block_bytes_; }
  void add(const Round& round, const std::byte* message);

  const std::size_t nodes_;
  const std::size_t me_;
  std::vector<Round> rounds_;
  /// Gathered: by their nodes' distance from this one. Otherwise there is one.
  std::vector<std::byte> blocks_;
  std::size_t block_bytes_ = 0;
  Kind kind_ = Kind::none;
  reduce::Kernel kernel_{};
  std::size_t root_ = 0;
};

}  // namespace tutti::collective
