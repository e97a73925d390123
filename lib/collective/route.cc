#include "collective/route.h"

#include <algorithm>

#include "collective/node_sum.h"

namespace tutti::collective {
namespace {

constexpr std::size_t worth_its_own_sum = 512;

bool moves_by_halves(const Batch& batch, const Site& site) {
  return batch.kind == CollectiveKind::allreduce && batch.ends == nullptr &&
         batch.bytes() >= site.halves_from;
}

/// The route of an allgather. Between nodes the lanes send from the result slots, so an allgather's
/// inputs are copied there.
Route gather(const Site& site, bool told) {
  const bool in_arenas = told && !site.several_nodes();
  Route route;
  route.released = &shm::RankBlock::copied_out;
  route.waits_for_release = in_arenas;
  route.copy_in = in_arenas ? Route::CopyIn::none : Route::CopyIn::column;
  route.copy_out = in_arenas ? Route::CopyOut::in_place : Route::CopyOut::result;
  if (!site.several_nodes()) {
    // The column that copy in puts there is the result, so no rank waits for `copied_in`.
    route.brought = &shm::RankBlock::reduced;
    route.leaves_out_copied_in = true;
    route.leaves_out_reduced = in_arenas;
    return route;
  }
  if (site.in_a_lane) {
    route.sum = Route::Sum::passed_over;
    route.exchange = Route::Exchange::allgather;
  }
  route.leaves_out_reduced = !site.in_a_lane;
  return route;
}

/// Whether the rank is alone on its node. Then no other rank of the node has anything to sum, so
/// the rank copies its input straight to the result slot. On the host that would save no time,
/// because summing one source takes as long as a copy.
bool is_alone(const Batch& batch, const Site& site) {
  return batch.ends != nullptr && site.several_nodes() && site.local_size == 1 &&
         batch.divisor_in_node() == 1;
}

/// The route of an allreduce or of its first half. Tensors with ends of their own are copied to
/// staging memory as a whole, and out of it.
Route reduce(const Batch& batch, const Site& site, bool in_arenas) {
  const bool host = batch.ends == nullptr;
  const bool scatters = batch.kind == CollectiveKind::reduce_scatter;
  const bool everywhere = in_arenas && !scatters;
  Route route;
  route.own_in_place = host;
  route.waits_for_release = in_arenas;
  route.own_column_out = scatters;
  if (!in_arenas) route.copy_in = host ? Route::CopyIn::staging : Route::CopyIn::whole_chunk;
  route.leaves_out_copied_in = in_arenas;
  if (site.in_a_lane) {
    route.sum = in_arenas ? Route::Sum::in_place : Route::Sum::staged;
  }
  if (is_alone(batch, site)) {
    route.copy_in = Route::CopyIn::result;
    route.sum = Route::Sum::passed_over;
    route.released = &shm::RankBlock::copied_out;
  }
  if (site.several_nodes()) {
    if (site.in_a_lane) {
      route.exchange = scatters ? Route::Exchange::reduce_scatter : Route::Exchange::allreduce;
      route.delivers = everywhere;
    }
  } else if (everywhere) {
    route.sum_to = Route::SumTo::all_outputs;
  } else if (host && scatters) {
    route.sum_to = Route::SumTo::own_outputs;
  }
  const bool is_out = everywhere || route.sum_to != Route::SumTo::result;
  if (!is_out) route.copy_out = Route::CopyOut::result;
  // A lane's slice stays in the result slot until the lane delivers it.
  route.leaves_out_copied_out = is_out && !route.delivers;
  route.leaves_out_reduced = !site.in_a_lane;
  route.reduced_at_the_end = in_arenas && is_out;
  return route;
}

/// Whether each rank's whole row of the matrix fits its slot, which has the size of the eager
/// limit. Each rank looks at all rows, so that all choose alike.
bool fits_slots(const Batch& batch, std::size_t eager_bytes) {
  const std::size_t most = eager_bytes / size_of(batch.dtype);
  const Shares& shares = batch.shares;
  for (int sender = 0; sender < shares.ranks; ++sender) {
    std::size_t sent = 0;
    for (int receiver = 0; receiver < shares.ranks; ++receiver) {
      sent += shares.share(sender, receiver).size();
    }
    if (sent > most) return false;
  }
  return true;
}

/// Between nodes the gate's messages carry no shares.
Way way_of_all_to_all(const Batch& batch, const Site& site) {
  const bool with_gate = !site.several_nodes() && batch.ends == nullptr;
  return with_gate && fits_slots(batch, site.eager_bytes) ? Way::small : Way::all_to_all;
}

}  // namespace

bool is_worth_its_own_sum(const Batch& batch) {
  return batch.bytes() / batch.parts.size() >= worth_its_own_sum;
}

/// The rank that writes an output in an arena does not read it next. With tensors as large as the
/// caches, non-temporal stores took 2, 4 and 8 ranks 16 to 23 % less time for such outputs, and 16
/// to 31 % more time for private ones.
bool is_streamed(const Batch& batch, const Site& site, bool in_arenas) {
  const std::size_t each = site.cache_bytes / static_cast<std::size_t>(site.local_size);
  return batch.exceeds(in_arenas ? each / 4 * 3 : each);
}

Site Site::of(const topology::Topology& topology, const Tuning& tuning) {
  return {.nodes = topology.nodes.size(),
          .local_size = topology.local_size(),
          .in_a_lane = topology.local_index() < topology.lanes(),
          .node_tree = topology::joins_of_uneven_nodes(topology).empty(),
          .eager_bytes = tuning.eager_bytes,
          .cache_bytes = tuning.cache_bytes,
          .halves_from = takes_halves(topology) ? tuning.halves_from : SIZE_MAX};
}

Piggyback::Kind carried_by_gate(const Batch& batch, const Site& site) {
  if (!site.several_nodes() || batch.is_sharded() || batch.wire != WireFormat::none) {
    return Piggyback::Kind::none;
  }
  if (batch.kind == CollectiveKind::broadcast) return Piggyback::Kind::passed_on;
  const bool sums =
      Piggyback::may_sum(site.nodes) && NodeSum::is_pairwise(batch.dtype, site.node_tree);
  return sums ? Piggyback::Kind::summed : Piggyback::Kind::gathered;
}

Way choose_way(const Batch& batch, const Site& site) {
  if (batch.count() == 0) return Way::nothing;
  if (moves_by_halves(batch, site)) return Way::halves;
  if (batch.is_all_to_all()) return way_of_all_to_all(batch, site);
  const std::size_t carried = site.several_nodes()
                                  ? Piggyback::most_block(carried_by_gate(batch, site), site.nodes)
                                  : site.eager_bytes;
  const bool in_time = batch.ends == nullptr;
  if (in_time && batch.bytes() <= std::min(site.eager_bytes, carried)) return Way::small;
  return batch.kind == CollectiveKind::broadcast ? Way::broadcast : Way::pipeline;
}

Route choose_route(const Batch& batch, const Site& site, bool in_arenas) {
  Route route = batch.kind == CollectiveKind::allgather ? gather(site, in_arenas)
                                                        : reduce(batch, site, in_arenas);
  route.streaming = is_streamed(batch, site, in_arenas);
  return route;
}

}  // namespace tutti::collective
