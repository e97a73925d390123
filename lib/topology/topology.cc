#include "topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "tutti/error.h"

namespace tutti::topology {
namespace {

/// A leader leads itself and is the lowest rank of its node.
void check_leader(int rank, std::span<const int> leader_of) {
  const int leader = leader_of[static_cast<std::size_t>(rank)];
  if (leader < 0 || leader > rank || leader_of[static_cast<std::size_t>(leader)] != leader) {
    throw Error(ErrorCode::internal,
                fmt::format("topology: rank {} of {} names rank {} as its node's leader, which is "
                            "not the lowest rank of a node",
                            rank, leader_of.size(), leader));
  }
}

/// Appends the joins of the canonical tree over the leaves [first, first + n). `is_node` says
/// whether some leaves are exactly those of one node. Returns false if some node is not a branch of
/// the tree.
template <class IsNode>
bool append_joins(std::size_t first, int n, const std::vector<int>& node_of, const IsNode& is_node,
                  std::vector<Join>& joins) {
  if (is_node(first, n)) return true;
  if (n == 1) return false;
  const int left = tree_split(n);
  const std::size_t middle = first + static_cast<std::size_t>(left);
  if (!append_joins(first, left, node_of, is_node, joins)) return false;
  if (!append_joins(middle, n - left, node_of, is_node, joins)) return false;
  joins.push_back(
      {static_cast<std::size_t>(node_of[first]), static_cast<std::size_t>(node_of[middle])});
  return true;
}

}  // namespace

int Topology::lanes() const {
  const auto smallest = std::min_element(
      nodes.begin(), nodes.end(),
      [](const std::vector<int>& a, const std::vector<int>& b) { return a.size() < b.size(); });
  return static_cast<int>(smallest->size());
}

std::vector<int> Topology::kin(int lane) const {
  std::vector<int> ranks;
  ranks.reserve(nodes.size());
  for (const std::vector<int>& node : nodes) {
    ranks.push_back(node[static_cast<std::size_t>(lane)]);
  }
  return ranks;
}

Topology make_topology(int rank, std::span<const int> leader_of) {
  const int size = static_cast<int>(leader_of.size());
  if (rank < 0 || rank >= size) {
    throw Error(ErrorCode::internal, fmt::format("topology: rank {} in a world of {}", rank, size));
  }
  Topology made{rank, size, {}, {}, {}};
  for (int r = 0; r < size; ++r) {
    check_leader(r, leader_of);
    const int leader = leader_of[static_cast<std::size_t>(r)];
    if (leader == r) {
      made.nodes.emplace_back();
    }
    const int node =
        leader == r ? made.node_count() - 1 : made.node_of[static_cast<std::size_t>(leader)];
    std::vector<int>& members = made.nodes[static_cast<std::size_t>(node)];
    made.node_of.push_back(node);
    made.local_index_of.push_back(static_cast<int>(members.size()));
    members.push_back(r);
  }
  return made;
}

Range shard(std::size_t count, int parts, int index, std::size_t granule) {
  const std::size_t granules = count / granule + (count % granule != 0 ? 1 : 0);
  const auto n = static_cast<std::size_t>(parts);
  const std::size_t each = granules / n;
  const std::size_t larger = granules % n;
  const auto boundary = [&](std::size_t i) {
    const std::size_t whole = each * i + std::min(i, larger);
    return whole == granules ? count : whole * granule;
  };
  const auto i = static_cast<std::size_t>(index);
  return {boundary(i), boundary(i + 1)};
}

int tree_split(int n) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(n - 1)));
}

std::vector<Join> joins_of_uneven_nodes(const Topology& topology) {
  const auto is_node = [&](std::size_t first, int n) {
    const auto& ranks = topology.nodes[static_cast<std::size_t>(topology.node_of[first])];
    return ranks.size() == static_cast<std::size_t>(n) &&
           ranks.front() == static_cast<int>(first) && ranks.back() - ranks.front() == n - 1;
  };
  std::vector<Join> over_ranks;
  if (!append_joins(0, topology.size, topology.node_of, is_node, over_ranks)) return {};
  std::vector<int> nodes(topology.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  std::vector<Join> over_nodes;
  append_joins(
      0, topology.node_count(), nodes, [](std::size_t, int n) { return n == 1; }, over_nodes);
  return over_ranks == over_nodes ? std::vector<Join>{} : over_ranks;
}

}  // namespace tutti::topology
