#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "reduce/reduce.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Adds the sums of the nodes in the canonical tree, so that the bits do not depend on how the data
/// travels between nodes. Not thread-safe.
class NodeSum {
 public:
  explicit NodeSum(const topology::Topology& topology)
      : joins_(topology::joins_of_uneven_nodes(topology)) {}

  /// Whether the nodes may be summed two at a time, along the canonical tree over nodes, with the
  /// same bits as in one pass. That is so if the sum follows that tree (`node_tree`), and if the
  /// dtype rounds partial sums as one pass does. 16-bit floats do not, because one pass rounds
  /// once, at the end. f32 and f64 follow another tree if `topology::joins_of_uneven_nodes` has
  /// one.
  static bool is_pairwise(DType dtype, bool node_tree);

  /// `places` holds `count` elements of each node, which may be overwritten. `out` may be one of
  /// the places.
  void operator()(const reduce::Kernel& kernel, std::span<std::byte* const> places, std::byte* out,
                  std::size_t count);

 private:
  bool joins(DType dtype) const;
  void join(const reduce::Kernel& kernel, std::span<std::byte* const> places, std::byte* out,
            std::size_t count) const;

  /// The tree for f32 and f64, whose sums depend on it. If it is empty, they follow the canonical
  /// tree over nodes.
  std::vector<topology::Join> joins_;
  std::vector<const void*> sources_;
};

}  // namespace tutti::collective
