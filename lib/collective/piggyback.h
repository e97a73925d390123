#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reduce/reduce.h"

namespace tutti::collective {

/// Data that is piggybacked on a gate's messages between nodes, and which node sends what to which.
/// In round j each node sends one message: to the node 2^j further on, or, if the number of nodes
/// is a power of two, to the node whose number differs in bit j. After ceil(log2 n) rounds every
/// node has heard from all.
///
/// It computes what messages hold, and sends none. Not thread-safe.
class Piggyback {
 public:
  enum class Kind : std::uint8_t {
    none,
    /// Every node's block goes to every node. A message holds the blocks that its sender has and
    /// its receiver lacks.
    gathered,
    /// Every node gets the sum of all blocks. A message holds the sum that its sender has computed:
    /// a branch of the canonical tree over nodes. Possible only if the number of nodes is a power
    /// of two.
    summed,
    /// The root's block goes to every node. A message holds it, or nothing.
    passed_on,
  };

  /// The most bytes in a message before its blocks.
  static constexpr std::size_t header_bytes = 16;

  struct Load {
    Kind kind = Kind::none;
    std::span<const std::byte> block;  ///< equally long on every node
    reduce::Kernel kernel{};           ///< for `summed`; of equal dtypes; the last sum divides
    std::size_t root = 0;              ///< for `passed_on`: the node of the block
  };

  struct Round {
    std::size_t to = 0;  ///< nodes
    std::size_t from = 0;
    /// 2^j. The sender has the blocks of all nodes that are closer to it. Each block that it sends
    /// is farther from the receiver by this distance.
    std::size_t distance = 0;
    std::size_t blocks = 0;  ///< gathered: how many a message holds
  };

  Piggyback(std::size_t nodes, std::size_t me);

  /// Whether this many nodes can carry sums.
  static bool may_sum(std::size_t nodes);
  /// The largest block with which no message is longer than MPI sends at once.
  static std::size_t most_block(Kind kind, std::size_t nodes);
  /// The bytes of memory that it holds.
  static std::size_t buffer_bytes(std::size_t nodes);

  const std::vector<Round>& rounds() const { return rounds_; }
  /// Copies the block, which is no longer than `most_block`.
  void load(const Load& load);
  Kind kind() const { return kind_; }
  /// The bytes of this round's message, without its header. Call this when all earlier rounds are
  /// over.
  std::span<const std::byte> outgoing(const Round& round) const;
  /// Takes the bytes that this round's message brought. There are as many as its sender sent.
  void take(const Round& round, const std::byte* message);

  /// For `gathered`, after the last round and until the next load: the block of a node, which the
  /// caller may overwrite.
  std::byte* block(std::size_t node) { return place(distance_to(node)); }
  /// For `summed` and `passed_on`: the result, which is as long as the block.
  const std::byte* result() const { return blocks_.data(); }

 private:
  std::size_t distance_to(std::size_t node) const;
  std::byte* place(std::size_t distance) { return blocks_.data() + distance * block_bytes_; }
  void add(const Round& round, const std::byte* message);

  const std::size_t nodes_;
  const std::size_t me_;
  std::vector<Round> rounds_;
  /// For `gathered`: all blocks, by their nodes' distance from this one. Otherwise there is one
  /// block.
  std::vector<std::byte> blocks_;
  std::size_t block_bytes_ = 0;
  Kind kind_ = Kind::none;
  reduce::Kernel kernel_{};
  std::size_t root_ = 0;
};

}  // namespace tutti::collective
