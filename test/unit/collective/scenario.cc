#include "scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tutti/shard.h"

using namespace tutti;
using collective::Batch;
using collective::Rows;

namespace {

constexpr DType dtypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64,
                            DType::i8,  DType::u8,   DType::i32, DType::i64};
constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max};

using Random = std::mt19937_64;

bool happens(Random& random, double share) {
  return std::uniform_real_distribution<>()(random) < share;
}

std::size_t random_count(Random& random, std::size_t most) {
  if (random() % 8 == 0) return random() % 3;
  return random() % (most + 1);
}

reference::Bytes identity(const Batch& batch, std::size_t count) {
  reference::Bytes bytes(count * size_of(batch.dtype));
  reduce::fill_identity(batch.dtype, batch.op, bytes.data(), count);
  return bytes;
}

Scenario::Tensors random_tensors(const Batch& batch, std::size_t count, std::size_t most_inputs,
                                 bool all_in_arenas, bool joined, Random& random) {
  Scenario::Tensors tensors;
  if (joined) return tensors;
  const std::size_t some = random() % 2 == 0 ? 1 : 2 + random() % 2;
  const std::size_t devices = all_in_arenas ? 1 : std::min(some, most_inputs);
  tensors.ins = reference::random_sources(batch.dtype, devices, count, random);
  tensors.in_arena = all_in_arenas || random() % 3 == 0;
  tensors.in_place = random() % 2 == 0 && !batch.is_sharded();
  tensors.outs = tensors.in_place ? devices : all_in_arenas ? 1 : random() % 3;
  tensors.misalignment = random() % 2 == 0 ? 0 : random() % 64;
  return tensors;
}

/// The number of elements that a rank's inputs have of a part.
std::size_t input_count(const Batch& batch, std::size_t count, int rank, int ranks) {
  return batch.kind == CollectiveKind::allgather ? shard(count, rank, ranks).count() : count;
}

/// Whether a rank may be without data.
bool may_have_joined(const Batch& batch, int rank) {
  if (batch.kind == CollectiveKind::broadcast) return rank != batch.root;
  return !needs_every_rank(batch.kind);
}

reduce::Kernel kernel(const Batch& batch, double divisor) {
  return {batch.dtype, batch.dtype, batch.op, divisor};
}

/// Whether the placement of ranks shows in the sum. It does if 16 bits hold rounded values, and
/// some nodes hold no branch of the tree over ranks.
bool depends_on_nodes(const Batch& batch, const topology::Topology& topology) {
  if (topology.node_count() == 1) return false;
  if (batch.wire != WireFormat::none || size_of(batch.dtype) == 2) return true;
  const bool floats = batch.dtype == DType::f32 || batch.dtype == DType::f64;
  const bool even = topology.size == topology.node_count() * topology.local_size();
  return floats && !even && topology::joins_of_uneven_nodes(topology).empty();
}

/// The sum over ranks: in the canonical tree over all of them, or over nodes.
reference::Bytes over_nodes(const Batch& batch, const std::vector<reference::Bytes>& of_ranks,
                            const topology::Topology& topology, std::size_t count) {
  const reduce::Kernel all = kernel(batch, batch.divisor);
  if (!depends_on_nodes(batch, topology)) return reference::reduced(all, of_ranks, count);
  // 16 bits may not hold values that are not divided.
  const bool narrow = size_of(batch.dtype) == 2;
  const double first = narrow ? batch.divisor : 1;
  const double second = narrow ? 1 : batch.divisor;
  std::vector<reference::Bytes> of_nodes;
  of_nodes.reserve(topology.nodes.size());
  for (const std::vector<int>& ranks : topology.nodes) {
    std::vector<reference::Bytes> of_node;
    of_node.reserve(ranks.size());
    for (const int rank : ranks) of_node.push_back(of_ranks[static_cast<std::size_t>(rank)]);
    of_nodes.push_back(reference::reduced(kernel(batch, first), of_node, count));
  }
  if (batch.wire == WireFormat::none) {
    return reference::reduced(kernel(batch, second), of_nodes, count);
  }
  const DType wire = batch.wire == WireFormat::fp16 ? DType::f16 : DType::bf16;
  for (reference::Bytes& sum : of_nodes) {
    sum = reference::reduced({batch.dtype, wire, batch.op, second}, {sum}, count);
  }
  const reference::Bytes sum = reference::reduced({wire, wire, batch.op}, of_nodes, count);
  return reference::reduced({wire, batch.dtype}, {sum}, count);
}

reference::Bytes result(const Batch& batch, const std::vector<Scenario::Tensors>& by_rank,
                        const topology::Topology& topology, std::size_t count) {
  if (batch.kind == CollectiveKind::broadcast) {
    return by_rank[static_cast<std::size_t>(batch.root)].ins.at(0);
  }
  if (batch.kind == CollectiveKind::allgather) {
    reference::Bytes all;
    for (const auto& tensors : by_rank) {
      all.insert(all.end(), tensors.ins.at(0).begin(), tensors.ins.at(0).end());
    }
    return all;
  }
  const reduce::Kernel over_devices = kernel(batch, 1);
  std::vector<reference::Bytes> of_ranks;
  of_ranks.reserve(by_rank.size());
  for (const Scenario::Tensors& tensors : by_rank) {
    of_ranks.push_back(tensors.ins.empty() ? identity(batch, count)
                       : tensors.ins.size() == 1
                           ? tensors.ins[0]
                           : reference::reduced(over_devices, tensors.ins, count));
  }
  return over_nodes(batch, of_ranks, topology, count);
}

CollectiveKind random_kind(Random& random) {
  switch (random() % 9) {
    case 8:
      return CollectiveKind::all_to_all;
    case 0:
      return CollectiveKind::reduce_scatter;
    case 1:
      return CollectiveKind::allgather;
    case 2:
    case 3:
      return CollectiveKind::broadcast;
    default:
      return CollectiveKind::allreduce;
  }
}

WireFormat random_wire(const Batch& batch, const topology::Topology& topology, Random& random) {
  constexpr WireFormat formats[] = {WireFormat::none, WireFormat::fp16, WireFormat::bf16};
  if (topology.node_count() == 1 || batch.dtype != DType::f32 || !is_reducing(batch.kind))
    return WireFormat::none;
  return formats[random() % std::size(formats)];
}

/// Elements by sender and receiver: about `most` of each rank, in one of the shapes that programs
/// have: like a gather, like a scatter, or anything, with empty shares.
std::vector<std::size_t> random_counts(int ranks, std::size_t most, Random& random) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> counts(n * n);
  const std::size_t root = random() % n;
  const auto shape = random() % 4;
  for (std::size_t i = 0; i < n * n; ++i) {
    const bool empty = (shape == 0 && i % n != root) || (shape == 1 && i / n != root);
    if (!empty && random() % 4 != 0) counts[i] = random() % (2 * most / n + 2);
  }
  return counts;
}

/// The elements that a rank sends and that it receives.
struct LineSums {
  std::size_t sent = 0;
  std::size_t received = 0;
};
LineSums sums_of(const std::vector<std::size_t>& counts, int rank, int ranks) {
  LineSums sums;
  const auto n = static_cast<std::size_t>(ranks);
  const auto me = static_cast<std::size_t>(rank);
  for (std::size_t other = 0; other < n; ++other) {
    sums.sent += counts[me * n + other];
    sums.received += counts[other * n + me];
  }
  return sums;
}

/// Draws the matrix of an all_to_all, and the tensors of all ranks.
void add_shares(Scenario::Planned& plan, int ranks, const Scenario::Options& options, bool hidden,
                Random& random) {
  Batch& batch = plan.batch;
  plan.counts = random_counts(ranks, options.most_elements, random);
  std::size_t length = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const LineSums sums = sums_of(plan.counts, rank, ranks);
    length = std::max({length, sums.sent, sums.received});
    Scenario::Tensors tensors;
    tensors.ins = reference::random_sources(batch.dtype, 1, sums.sent, random);
    tensors.outs = 1;
    tensors.in_arena = random() % 3 == 0;
    tensors.misalignment = random() % 2 == 0 ? 0 : random() % 64;
    tensors.hidden = hidden;
    plan.tensors[static_cast<std::size_t>(rank)].push_back(tensors);
  }
  batch.parts.push_back({});
  batch.shares = {{}, ranks, length, {0, length}};
}

}  // namespace

Scenario::Scenario(std::uint32_t seed, int ranks, const Options& options) {
  Random random(seed);
  const std::vector<int> one_node(static_cast<std::size_t>(ranks), 0);
  const topology::Topology topology =
      topology::make_topology(0, options.leader_of.empty() ? one_node : options.leader_of);
  for (std::size_t i = 0; i < options.batches; ++i) {
    Planned& plan = planned.emplace_back();
    Batch& batch = plan.batch;
    batch.epoch = 1;
    batch.number = i;
    batch.kind = random_kind(random);
    batch.dtype = dtypes[random() % std::size(dtypes)];
    batch.op = ops[random() % std::size(ops)];
    batch.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
    batch.divisor = batch.op == ReduceOp::average ? static_cast<double>(1 + random() % 8) : 1;
    batch.wire = random_wire(batch, topology, random);
    batch.whole_bytes = random() % 2 == 0 ? 0 : std::size_t{1} << 40;
    const bool hidden = options.hidden > 0 && happens(random, options.hidden);
    const bool all_in_arenas = !hidden && happens(random, options.in_arenas);
    plan.tensors.resize(static_cast<std::size_t>(ranks));
    if (batch.is_all_to_all()) {
      add_shares(plan, ranks, options, hidden, random);
      continue;
    }
    const std::size_t parts = batch.is_sharded() ? 1 : 1 + random() % options.most_parts;
    for (std::size_t p = 0; p < parts; ++p) {
      const std::size_t count = random_count(random, options.most_elements);
      batch.parts.push_back({{}, {}, count});
      if (batch.is_sharded()) batch.rows = Rows::of_part(count, ranks, 0, count);
      std::vector<Tensors> by_rank;
      for (int rank = 0; rank < ranks; ++rank) {
        const bool joined =
            options.joins && !all_in_arenas && random() % 8 == 0 && may_have_joined(batch, rank);
        by_rank.push_back(random_tensors(batch, input_count(batch, count, rank, ranks),
                                         options.most_inputs, all_in_arenas, joined, random));
        by_rank.back().hidden = hidden;
        plan.tensors[static_cast<std::size_t>(rank)].push_back(by_rank.back());
      }
      plan.results.push_back(result(batch, by_rank, topology, count));
    }
  }
}

Batch Scenario::Planned::batch_at(int rank) const {
  Batch at = batch;
  at.shares.counts = counts;
  if (at.is_all_to_all()) {
    const LineSums sums = sums_of(counts, rank, at.shares.ranks);
    at.parts[0].count = std::max(sums.sent, sums.received);
  }
  return at;
}

reference::Bytes Scenario::Planned::shares_of(int rank) const {
  reference::Bytes all;
  const auto n = static_cast<std::size_t>(batch.shares.ranks);
  const std::size_t width = size_of(batch.dtype);
  for (std::size_t from = 0; from < n; ++from) {
    std::size_t begin = 0;
    const auto me = static_cast<std::size_t>(rank);
    for (std::size_t to = 0; to < me; ++to) begin += counts[from * n + to] * width;
    const auto first = tensors[from][0].ins[0].begin() + static_cast<std::ptrdiff_t>(begin);
    all.insert(all.end(), first,
               first + static_cast<std::ptrdiff_t>(counts[from * n + me] * width));
  }
  return all;
}

reference::Bytes Scenario::Planned::result_at(int rank, std::size_t part) const {
  if (batch.is_all_to_all()) return shares_of(rank);
  const reference::Bytes& all = results[part];
  if (batch.kind != CollectiveKind::reduce_scatter) return all;
  const Shard own = shard(batch.rows.whole, rank, batch.rows.ranks);
  const auto width = static_cast<std::ptrdiff_t>(size_of(batch.dtype));
  return {all.begin() + static_cast<std::ptrdiff_t>(own.begin) * width,
          all.begin() + static_cast<std::ptrdiff_t>(own.end) * width};
}

Part::Part(const Scenario& scenario, int rank, shm::Arena& arena, FakeEnds* ends)
    : scenario_(scenario), rank_(rank), arena_(arena) {
  for (const Scenario::Planned& plan : scenario.planned) {
    std::vector<Addresses>& addresses = addresses_.emplace_back();
    const auto& parts = plan.tensors[static_cast<std::size_t>(rank)];
    for (std::size_t p = 0; p < parts.size(); ++p) {
      Addresses& at = addresses.emplace_back();
      for (const reference::Bytes& in : parts[p].ins) {
        void* const memory = place(parts[p], in.size());
        if (!in.empty()) std::memcpy(memory, in.data(), in.size());
        at.ins.push_back(memory);
        if (parts[p].in_place) at.outs.push_back(memory);
      }
      const std::size_t bytes = plan.result_at(rank, p).size();
      while (at.outs.size() < parts[p].outs) at.outs.push_back(place(parts[p], bytes));
      if (parts[p].hidden) {
        for (const void*& in : at.ins) in = FakeEnds::hide(in);
        for (void*& out : at.outs) out = FakeEnds::hide(out);
      }
    }
  }
  // The addresses are taken only now, because vectors must not move any more.
  for (std::size_t b = 0; b < addresses_.size(); ++b) {
    Batch& batch = batches_.emplace_back(scenario.planned[b].batch_at(rank));
    for (std::size_t p = 0; p < batch.parts.size(); ++p) {
      batch.parts[p].ins = addresses_[b][p].ins;
      batch.parts[p].outs = addresses_[b][p].outs;
      const std::size_t own =
          batch.is_sharded() ? shard(batch.rows.whole, rank, batch.rows.ranks).begin : 0;
      if (batch.kind == CollectiveKind::reduce_scatter) batch.parts[p].out_first = own;
      if (batch.kind == CollectiveKind::allgather) batch.parts[p].in_first = own;
      if (scenario.planned[b].tensors[0][p].hidden) batch.ends = ends;
    }
  }
}

void* Part::place(const Scenario::Tensors& tensors, std::size_t bytes) {
  if (tensors.in_arena) return memory_.emplace_back(arena_.allocate(bytes)).get();
  const auto bytes_and_shift = bytes + tensors.misalignment;
  memory_.emplace_back(std::malloc(std::max<std::size_t>(bytes_and_shift, 1)), std::free);
  return static_cast<std::byte*>(memory_.back().get()) + tensors.misalignment;
}

void Part::check() const {
  for (std::size_t b = 0; b < addresses_.size(); ++b) {
    const Scenario::Planned& plan = scenario_.planned[b];
    for (std::size_t p = 0; p < plan.batch.parts.size(); ++p) {
      const Scenario::Tensors& tensors = plan.tensors[static_cast<std::size_t>(rank_)][p];
      const auto same = [&](const void* memory, const reference::Bytes& bytes) {
        if (tensors.hidden) memory = FakeEnds::hide(memory);
        return bytes.empty() || std::memcmp(memory, bytes.data(), bytes.size()) == 0;
      };
      const auto fail = [&](const char* what, std::size_t device) {
        throw std::runtime_error(
            fmt::format("rank {}, batch {} ({} of {}, {}), part {} of {} elements: {} {} is wrong",
                        rank_, b, name(plan.batch.op), name(plan.batch.dtype),
                        name(plan.batch.kind), p, plan.batch.parts[p].count, what, device));
      };
      for (std::size_t d = 0; d < addresses_[b][p].outs.size(); ++d) {
        if (!same(addresses_[b][p].outs[d], plan.result_at(rank_, p))) fail("output", d);
      }
      for (std::size_t d = 0; d < tensors.ins.size() && !tensors.in_place; ++d) {
        if (!same(addresses_[b][p].ins[d], tensors.ins[d])) fail("input", d);
      }
    }
  }
}
