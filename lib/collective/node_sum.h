#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "reduce/reduce.h"
#include "topology/topology.h"

namespace tutti::collective {

/// The sum of what the nodes have, in the canonical tree: no bit depends on which way data takes
/// between nodes. Not thread-safe.
class NodeSum {
 public:
  explicit NodeSum(const topology::Topology& topology)
      : joins_(topology::joins_of_uneven_nodes(topology)) {}

  /// Whether its bits for this dtype are those of sums of two in the canonical tree over nodes:
  /// the tree is that one, and no sum of some nodes is rounded that is not in one pass.
  bool is_pairwise(DType dtype) const;

  /// `places` by node, each of `count` elements and perhaps overwritten; `out` may be one of them.
  void operator()(const reduce::Kernel& kernel, std::span<std::byte* const> places, std::byte* out,
                  std::size_t count);

 private:
  bool joins(DType dtype) const;
  void join(const reduce::Kernel& kernel, std::span<std::byte* const> places, std::byte* out,
            std::size_t count) const;

  /// The tree for f32 and f64, whose sums depend on it; none: the canonical one over nodes.
  std::vector<topology::Join> joins_;
  std::vector<const void*> sources_;
};

}  // namespace tutti::collective
