#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace tutti::topology {

/// The node of each rank, as every rank of the job sees it. All fields except `rank` are equal on
/// all ranks. Plain data: `make_topology` makes it once, and then any thread may read it.
struct Topology {
  int rank = 0;
  int size = 1;
  /// The world ranks of each node, ascending; nodes ordered by their lowest rank. Never empty.
  std::vector<std::vector<int>> nodes = {{0}};
  /// By world rank: the index in `nodes`, and the place within that node.
  std::vector<int> node_of = {0};
  std::vector<int> local_index_of = {0};

  int node() const { return node_of[static_cast<std::size_t>(rank)]; }
  int local_index() const { return local_index_of[static_cast<std::size_t>(rank)]; }
  int local_size() const { return static_cast<int>(local_ranks().size()); }
  /// The world ranks on this rank's node.
  const std::vector<int>& local_ranks() const { return nodes[static_cast<std::size_t>(node())]; }
  int node_count() const { return static_cast<int>(nodes.size()); }
  /// The lowest rank of a node.
  int leader(int node) const { return nodes[static_cast<std::size_t>(node)].front(); }
  bool is_leader() const { return local_index() == 0; }

  /// The number of lanes: the smallest number of ranks on any node. Local rank i < lanes()
  /// exchanges shard i with its kin: the ranks that have the same local index on the other nodes.
  int lanes() const;
  /// The world ranks of a lane: one of each node, in the order of `nodes`. Requires 0 <= lane <
  /// lanes().
  std::vector<int> kin(int lane) const;

  friend bool operator==(const Topology&, const Topology&) = default;
};

/// Returns the topology as `rank` sees it. `leader_of[r]` is the lowest rank on r's node, for each
/// rank r of the world. Throws `internal`, which names the first rank whose entry is impossible.
Topology make_topology(int rank, std::span<const int> leader_of);

/// The elements [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Returns part `index` of `parts` when `count` elements are split evenly.
/// - The parts are disjoint and in order, and cover all elements.
/// - All parts have the same number of granules, or one more; the larger parts come first.
/// - Only the last part that has elements may end in a partial granule.
/// - Every boundary is a multiple of `granule` elements, or `count`.
/// - If there are fewer granules than parts, the last parts are empty.
///
/// Requires parts >= 1, 0 <= index < parts, granule >= 1.
Range shard(std::size_t count, int parts, int index, std::size_t granule);

/// The number of operands in the left half of the canonical sum tree over n >= 2 operands: the
/// largest power of two below n.
int tree_split(int n);

/// One sum in a tree over nodes. It adds the operand at node `right` to the operand at node `left`,
/// and leaves the sum there.
struct Join {
  std::size_t left = 0;
  std::size_t right = 0;

  friend bool operator==(const Join&, const Join&) = default;
};

/// The part of the canonical tree over ranks that adds the sums of whole nodes. Each join comes
/// after its branches. The result is empty if the canonical tree over nodes is used instead:
/// because both trees are the same, or because some node does not hold exactly one branch of the
/// tree over ranks.
std::vector<Join> joins_of_uneven_nodes(const Topology& topology);

}  // namespace tutti::topology
