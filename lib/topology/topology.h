#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace tutti::topology {

/// Which rank is on which node, as every rank of the job sees it: all fields but `rank` are equal
/// everywhere. Plain data; made once by `make_topology` and then only read, from any thread.
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

  /// The smallest local size over all nodes: the local rank i < lanes() exchanges shard i with its
  /// kin, the ranks of the same local index on the other nodes.
  int lanes() const;
  /// One world rank a node, in the order of `nodes`; 0 <= lane < lanes().
  std::vector<int> kin(int lane) const;

  friend bool operator==(const Topology&, const Topology&) = default;
};

/// The topology seen by `rank` when `leader_of[r]` is the lowest rank on r's node, for each rank r
/// of the world. Throws `internal`, naming the first rank whose entry cannot be.
Topology make_topology(int rank, std::span<const int> leader_of);

/// Elements [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Part `index` of `parts` when `count` elements are split evenly. The parts are disjoint, in order
/// and cover everything; they have the same number of granules or one more, larger parts first, and
/// only the last part with elements may end in a partial one. Every boundary is a multiple of
/// `granule` elements, or `count` (with fewer granules than parts the last parts are empty).
/// parts >= 1, 0 <= index < parts, granule >= 1.
Range shard(std::size_t count, int parts, int index, std::size_t granule);

/// The canonical sum tree over n >= 2 operands: its left half has this many, the largest power of
/// two below n.
int tree_split(int n);

/// A point of a sum tree over nodes: what lies at `left` and what lies at `right` are summed, and
/// the sum lies at `left`.
struct Join {
  std::size_t left = 0;
  std::size_t right = 0;

  friend bool operator==(const Join&, const Join&) = default;
};

/// The canonical tree over ranks as sums of what whole nodes have summed, each point after its
/// branches. Empty where the canonical tree over nodes does: it is the same, or some node does not
/// hold exactly one branch of the tree over ranks.
std::vector<Join> joins_of_uneven_nodes(const Topology& topology);

}  // namespace tutti::topology
