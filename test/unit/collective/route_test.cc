#include "collective/route.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "collective/ends.h"

using namespace tutti;
using namespace tutti::collective;

namespace {

constexpr std::size_t kib = 1024;

Batch routed_batch(CollectiveKind kind, std::size_t bytes, std::size_t parts = 1) {
  Batch batch;
  batch.kind = kind;
  batch.dtype = DType::f32;
  const std::size_t count = bytes / size_of(batch.dtype);
  for (std::size_t i = 0; i < parts; ++i) batch.parts.push_back({{}, {}, count / parts});
  if (batch.is_sharded()) batch.rows = Rows::of_part(count, 2, 0, count);
  return batch;
}

constexpr Site one_node{
    .nodes = 1, .local_size = 4, .eager_bytes = 256 * kib, .cache_bytes = 1024 * kib};
constexpr Site two_ranks{
    .nodes = 1, .local_size = 2, .eager_bytes = 256 * kib, .cache_bytes = 1024 * kib};
constexpr Site in_lane{
    .nodes = 4, .local_size = 4, .eager_bytes = 64 * kib, .cache_bytes = 1024 * kib};
constexpr Site no_lane{.nodes = 4,
                       .local_size = 4,
                       .in_a_lane = false,
                       .eager_bytes = 64 * kib,
                       .cache_bytes = 1024 * kib};

constexpr Site alone{
    .nodes = 4, .local_size = 1, .eager_bytes = 64 * kib, .cache_bytes = 1024 * kib};

std::string name(Route::Flag flag) {
  if (flag == &shm::RankBlock::copied_in) return "copied_in";
  return flag == &shm::RankBlock::reduced ? "reduced" : "copied_out";
}

template <typename Choice, std::size_t n>
const char* name(Choice choice, const char* const (&names)[n]) {
  return names[static_cast<std::size_t>(choice)];
}

/// The stages of a route, one after the other.
std::string stages(const Route& route) {
  const char* const ins[] = {"", "in staging", "in whole", "in column", "in result"};
  const char* const sums[] = {"", "sum staged", "sum in place", "pass over"};
  const char* const to[] = {" to result", " to outputs", " to all outputs"};
  const char* const exchanges[] = {"", "exchange", "exchange scatter", "exchange gather"};
  const char* const outs[] = {"", "out", "out in place"};
  std::string text;
  const auto add = [&](const std::string& stage) {
    if (stage.empty()) return;
    text += (text.empty() ? "" : ", ") + stage;
  };
  add(name(route.copy_in, ins));
  if (route.sum != Route::Sum::none)
    add(std::string(name(route.sum, sums)) + name(route.sum_to, to));
  add(name(route.exchange, exchanges));
  if (route.delivers) add("deliver");
  add(std::string(name(route.copy_out, outs)) +
      (route.own_column_out && route.copy_out != Route::CopyOut::none ? " column" : ""));
  return text;
}

/// The flags that a route raises for all chunks at once, since no stage of this rank raises them.
std::string left_out(const Route& route) {
  std::string text;
  if (route.leaves_out_copied_in) text += "copied_in ";
  if (route.leaves_out_reduced) text += "reduced ";
  if (route.leaves_out_copied_out) text += "copied_out ";
  return text;
}

struct Row {
  CollectiveKind kind;
  enum { in_host, in_arenas, own_ends } memory;
  const Site* site;
  const char* stages;
  const char* left_out;
};

constexpr auto allreduce = CollectiveKind::allreduce;
constexpr auto scatter = CollectiveKind::reduce_scatter;
constexpr auto gather = CollectiveKind::allgather;

constexpr Row table[] = {
    {allreduce, Row::in_host, &one_node, "in staging, sum staged to result, out", ""},
    {allreduce, Row::in_arenas, &one_node, "sum in place to all outputs", "copied_in copied_out "},
    {allreduce, Row::in_arenas, &two_ranks, "sum in place to all outputs", "copied_in copied_out "},
    {allreduce, Row::in_host, &in_lane, "in staging, sum staged to result, exchange, out", ""},
    {allreduce, Row::in_arenas, &in_lane, "sum in place to result, exchange, deliver",
     "copied_in "},
    {allreduce, Row::in_host, &no_lane, "in staging, out", "reduced "},
    {allreduce, Row::in_arenas, &no_lane, "", "copied_in reduced copied_out "},
    {scatter, Row::in_host, &one_node, "in staging, sum staged to outputs", "copied_out "},
    {scatter, Row::in_arenas, &one_node, "sum in place to outputs", "copied_in copied_out "},
    {scatter, Row::in_host, &two_ranks, "in staging, sum staged to outputs", "copied_out "},
    {scatter, Row::in_host, &in_lane,
     "in staging, sum staged to result, exchange scatter, out column", ""},
    {scatter, Row::in_arenas, &in_lane, "sum in place to result, exchange scatter, out column",
     "copied_in "},
    {scatter, Row::in_host, &no_lane, "in staging, out column", "reduced "},
    {scatter, Row::in_arenas, &no_lane, "out column", "copied_in reduced "},
    {gather, Row::in_host, &one_node, "in column, out", "copied_in "},
    {gather, Row::in_arenas, &one_node, "out in place", "copied_in reduced "},
    {gather, Row::in_host, &in_lane, "in column, pass over to result, exchange gather, out", ""},
    {gather, Row::in_host, &no_lane, "in column, out", "reduced "},
    {allreduce, Row::own_ends, &one_node, "in whole, sum staged to result, out", ""},
    {allreduce, Row::own_ends, &two_ranks, "in whole, sum staged to result, out", ""},
    {allreduce, Row::own_ends, &in_lane, "in whole, sum staged to result, exchange, out", ""},
    {allreduce, Row::own_ends, &no_lane, "in whole, out", "reduced "},
    {scatter, Row::own_ends, &one_node, "in whole, sum staged to result, out column", ""},
    {scatter, Row::own_ends, &in_lane,
     "in whole, sum staged to result, exchange scatter, out column", ""},
    {allreduce, Row::own_ends, &alone, "in result, pass over to result, exchange, out", ""},
    {scatter, Row::own_ends, &alone, "in result, pass over to result, exchange scatter, out column",
     ""},
    {allreduce, Row::in_host, &alone, "in staging, sum staged to result, exchange, out", ""},
    {gather, Row::own_ends, &one_node, "in column, out", "copied_in "},
    {gather, Row::own_ends, &in_lane, "in column, pass over to result, exchange gather, out", ""},
};

Route route_of(const Row& row) {
  static HostEnds some_ends{StagingStores::Pacing{}};
  Batch batch = routed_batch(row.kind, 4096 * kib);
  if (row.memory == Row::own_ends) batch.ends = &some_ends;
  return choose_route(batch, *row.site, row.memory == Row::in_arenas);
}

}  // namespace

TEST_CASE("a route has the stages that kind, nodes, lane and arenas call for") {
  for (const Row& row : table) {
    const Route route = route_of(row);
    CAPTURE(tutti::name(row.kind), row.site->nodes, row.site->local_size, row.site->in_a_lane,
            row.memory);
    CHECK(stages(route) == row.stages);
    CHECK(left_out(route) == row.left_out);
  }
}

// Otherwise a rank would wait for ever for a chunk, or write where another still reads.
TEST_CASE("each flag is raised by exactly one stage of a route, or left out") {
  for (const Row& row : table) {
    const Route route = route_of(row);
    CAPTURE(tutti::name(row.kind), row.site->nodes, row.site->local_size, row.site->in_a_lane,
            row.memory);
    const bool copies_in = route.copy_in != Route::CopyIn::none;
    const auto brings = [&](Route::Flag flag) {
      return copies_in && route.brought == flag ? 1 : 0;
    };
    CHECK(brings(&shm::RankBlock::copied_in) + (route.leaves_out_copied_in ? 1 : 0) == 1);
    CHECK(brings(&shm::RankBlock::reduced) + (route.sum != Route::Sum::none ? 1 : 0) +
              (route.leaves_out_reduced ? 1 : 0) ==
          1);
    CHECK((route.copy_out != Route::CopyOut::none ? 1 : 0) + (route.delivers ? 1 : 0) +
              (route.leaves_out_copied_out ? 1 : 0) ==
          1);
  }
}

TEST_CASE("staging is free, and inputs are released, once the last stage that reads them is over") {
  for (const Row& row : table) {
    const Route route = route_of(row);
    CAPTURE(tutti::name(row.kind), row.memory);
    const bool into_result =
        route.copy_in == Route::CopyIn::column || route.copy_in == Route::CopyIn::result;
    CHECK(name(route.released) == (row.kind == gather || into_result ? "copied_out" : "reduced"));
    CHECK(route.waits_for_release == (row.memory == Row::in_arenas));
  }
}

TEST_CASE("a rank whose tensors have ends of their own sums its input from staging memory") {
  for (const Row& row : table) {
    CAPTURE(tutti::name(row.kind), row.memory);
    if (row.kind == gather) continue;
    CHECK(route_of(row).own_in_place == (row.memory != Row::own_ends));
  }
}

TEST_CASE("a node of one rank divides 16-bit floats, so it sums its one input") {
  HostEnds some_ends{StagingStores::Pacing{}};
  Batch batch = routed_batch(allreduce, 4096 * kib);
  batch.ends = &some_ends;
  batch.divisor = 4;
  CHECK(choose_route(batch, alone, false).sum == Route::Sum::passed_over);
  batch.dtype = DType::f16;
  CHECK(choose_route(batch, alone, false).sum == Route::Sum::staged);
  batch.divisor = 1;
  CHECK(choose_route(batch, alone, false).sum == Route::Sum::passed_over);
}

TEST_CASE("outputs beyond a rank's part of the caches are streamed, those in arenas a bit sooner") {
  // Four ranks share 1 MiB; half of a rank's part is for the outputs.
  const auto streams = [](std::size_t bytes, bool in_arenas) {
    return choose_route(routed_batch(allreduce, bytes), one_node, in_arenas).streaming;
  };
  CHECK_FALSE(streams(128 * kib, false));
  CHECK(streams(132 * kib, false));
  CHECK_FALSE(streams(96 * kib, true));
  CHECK(streams(100 * kib, true));
}

TEST_CASE("a batch is small up to the eager limit, and between nodes up to what a gate carries") {
  Batch nothing = routed_batch(allreduce, 0);
  CHECK(choose_way(nothing, one_node) == Way::nothing);
  CHECK(choose_way(routed_batch(allreduce, 256 * kib), one_node) == Way::small);
  CHECK(choose_way(routed_batch(allreduce, 256 * kib + 4), one_node) == Way::pipeline);
  CHECK(choose_way(routed_batch(gather, 256 * kib), one_node) == Way::small);
  HostEnds some_ends{StagingStores::Pacing{}};
  Batch behind_ends = routed_batch(allreduce, 4);
  behind_ends.ends = &some_ends;
  CHECK(choose_way(behind_ends, one_node) == Way::pipeline);
  CHECK(choose_way(routed_batch(CollectiveKind::broadcast, 256 * kib), one_node) == Way::small);
  CHECK(choose_way(routed_batch(CollectiveKind::broadcast, 257 * kib), one_node) == Way::broadcast);
  const std::size_t carried = Piggyback::most_block(Piggyback::Kind::summed, 4);
  CHECK(choose_way(routed_batch(allreduce, carried), in_lane) == Way::small);
  CHECK(choose_way(routed_batch(allreduce, carried + 4), in_lane) == Way::pipeline);
  CHECK(choose_way(routed_batch(scatter, 64), in_lane) == Way::pipeline);
}

TEST_CASE("two ranks that are alone move an allreduce by halves, from a size on") {
  Site halving = two_ranks;
  halving.halves_from = 2 * kib;
  CHECK(choose_way(routed_batch(allreduce, 2 * kib - 4), halving) == Way::small);
  CHECK(choose_way(routed_batch(allreduce, 2 * kib), halving) == Way::halves);
  CHECK(choose_way(routed_batch(allreduce, 256 * kib, 4096), halving) == Way::halves);
  CHECK(choose_way(routed_batch(allreduce, 64 * 1024 * kib), halving) == Way::halves);
  CHECK(choose_way(routed_batch(scatter, 64 * kib), halving) == Way::small);
  CHECK(choose_way(routed_batch(scatter, 64 * 1024 * kib), halving) == Way::pipeline);
  CHECK(choose_way(routed_batch(CollectiveKind::broadcast, 64 * kib), halving) == Way::small);
  HostEnds some_ends{StagingStores::Pacing{}};
  Batch behind_ends = routed_batch(allreduce, 64 * kib);
  behind_ends.ends = &some_ends;
  CHECK(choose_way(behind_ends, halving) == Way::pipeline);
}

TEST_CASE("an all_to_all is small on one node if what each rank sends fits the eager limit") {
  constexpr std::size_t most = 64 * kib;  // floats
  const auto way = [](const std::vector<std::size_t>& counts, const Site& site,
                      topology::Range stretch, Ends* ends = nullptr) {
    Batch batch;
    batch.kind = CollectiveKind::all_to_all;
    batch.parts.push_back({});
    batch.shares = {counts, 2, 2 * most, stretch};
    batch.ends = ends;
    return choose_way(batch, site);
  };
  const topology::Range all{0, 2 * most};
  // A rank may receive more than the limit: it reads that from the others' slots.
  CHECK(way({0, most, 1, most - 1}, two_ranks, all) == Way::small);
  CHECK(way({0, most, 1, most}, two_ranks, all) == Way::all_to_all);
  CHECK(way({1, most, 1, 1}, two_ranks, all) == Way::all_to_all);
  // Half of it moves.
  CHECK(way({0, 2 * most, 1, 1}, two_ranks, {0, most}) == Way::small);
  CHECK(way({0, 1, 1, 0}, in_lane, all) == Way::all_to_all);
  HostEnds some_ends{StagingStores::Pacing{}};
  CHECK(way({0, 1, 1, 0}, two_ranks, all, &some_ends) == Way::all_to_all);
}

TEST_CASE(
    "a gate carries sums where pairs of nodes sum with the same bits, else each node's block") {
  Batch batch = routed_batch(allreduce, kib);
  Site site = in_lane;
  CHECK(carried_by_gate(batch, one_node) == Piggyback::Kind::none);
  CHECK(carried_by_gate(batch, site) == Piggyback::Kind::summed);
  site.nodes = 3;
  CHECK(carried_by_gate(batch, site) == Piggyback::Kind::gathered);
  site = in_lane;
  site.node_tree = false;
  CHECK(carried_by_gate(batch, site) == Piggyback::Kind::gathered);
  batch.dtype = DType::i32;
  CHECK(carried_by_gate(batch, site) == Piggyback::Kind::summed);
  batch.dtype = DType::bf16;
  CHECK(carried_by_gate(batch, in_lane) == Piggyback::Kind::gathered);
  batch.dtype = DType::f32;
  batch.wire = WireFormat::bf16;
  CHECK(carried_by_gate(batch, in_lane) == Piggyback::Kind::none);
  CHECK(carried_by_gate(routed_batch(scatter, kib), in_lane) == Piggyback::Kind::none);
  CHECK(carried_by_gate(routed_batch(CollectiveKind::broadcast, kib), in_lane) ==
        Piggyback::Kind::passed_on);
}
