// Gates between made-up nodes, under mpirun. The data of a gate arrive however the gate ends. If a
// gate does not close, none of its data arrive.
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "../unit/reduce/reference.h"
#include "member.h"
#include "mpi/library.h"
#include "numbers.h"

using namespace tutti::collective;
using tutti::CollectiveKind;
using tutti::DType;

namespace {

/// The facts about a batch. They are the same on all ranks.
struct Plan {
  CollectiveKind kind = CollectiveKind::allreduce;
  DType dtype = DType::f32;
  tutti::ReduceOp op = tutti::ReduceOp::sum;
  std::size_t count = 1;
  int root = 0;
  int salt = 0;

  /// A random batch. A gate carries its data in some way, or does not carry them.
  static Plan random(std::mt19937_64& random, int ranks);
  int contribution(int rank, std::size_t i) const {
    return (rank + 1) * static_cast<int>((static_cast<std::size_t>(salt) + i) % 7);
  }
  int expected(int ranks, std::size_t i) const;
};

Plan Plan::random(std::mt19937_64& random, int ranks) {
  constexpr DType dtypes[] = {DType::f32, DType::f64, DType::i32, DType::f16};
  constexpr std::size_t bytes[] = {8, 1000, 15'000, 30'000, 60'000, 100'000};
  Plan plan;
  if (random() % 3 == 0) plan.kind = CollectiveKind::broadcast;
  plan.dtype = dtypes[random() % std::size(dtypes)];
  if (random() % 3 == 0) plan.op = tutti::ReduceOp::max;
  plan.count = bytes[random() % std::size(bytes)] / size_of(plan.dtype);
  plan.root = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
  plan.salt = static_cast<int>(random() % 7);
  return plan;
}

int Plan::expected(int ranks, std::size_t i) const {
  if (kind == CollectiveKind::broadcast) return contribution(root, i);
  if (op == tutti::ReduceOp::max) return contribution(ranks - 1, i);
  return contribution(0, i) * ranks * (ranks + 1) / 2;
}

/// A rank's tensor of it, in place.
class Call {
 public:
  Call(const Plan& plan, int rank, std::uint32_t epoch, std::uint64_t number)
      : plan_(plan),
        memory_(plan.count * size_of(plan.dtype)),
        tensor_(memory_.data(), {static_cast<std::int64_t>(plan.count)}, plan.dtype),
        in_(memory_.data()),
        out_(memory_.data()) {
    for (std::size_t i = 0; i < plan.count; ++i) {
      numbers::put(tensor_, i, plan.contribution(rank, i));
    }
    batch_.epoch = epoch;
    batch_.number = number;
    batch_.kind = plan.kind;
    batch_.dtype = plan.dtype;
    batch_.op = plan.op;
    batch_.root = plan.root;
    batch_.parts.push_back({{&in_, 1}, {&out_, 1}, plan.count});
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Batch& batch() const { return batch_; }
  bool right(int ranks) const {
    for (std::size_t i = 0; i < plan_.count; ++i) {
      if (numbers::get(tensor_, i) != plan_.expected(ranks, i)) return false;
    }
    return true;
  }

 private:
  const Plan plan_;
  std::vector<std::byte> memory_;
  tutti::Tensor tensor_;
  const void* in_;
  void* out_;
  Batch batch_;
};

/// All alone, pairs, and a first node with two ranks, whose sums are joined in a tree of its own.
std::vector<std::vector<int>> placements(int ranks) {
  std::vector<int> alone;
  std::vector<int> pairs;
  for (int rank = 0; rank < ranks; ++rank) {
    alone.push_back(rank);
    pairs.push_back(rank / 2 * 2);
  }
  std::vector<int> uneven = alone;
  uneven[1] = 0;
  std::vector<std::vector<int>> all{alone};
  if (ranks > 2) all.insert(all.end(), {pairs, uneven});
  return all;
}

/// Runs `body(member)` in each placement; a failure is one of all ranks.
template <typename Body>
void on_all_placements(const Body& body) {
  tutti::mpi::start({});
  const auto world = tutti::mpi::Communicator::world(std::chrono::seconds(60));
  for (const std::vector<int>& leader_of : placements(world.size())) {
    const auto topology = tutti::topology::make_topology(world.rank(), leader_of);
    const Tuning tuning = Tuning::choose(topology, 0, {Tuning().cache_bytes, 1});
    Member member(leader_of, tuning);
    std::string failure;
    try {
      body(member);
      if (member.engine().buffer_bytes() > Engine::most_buffer_bytes(topology, tuning)) {
        throw std::runtime_error("more bytes of buffers than said");
      }
    } catch (const std::exception& error) {
      failure = error.what();
    }
    for (const auto& one : world.all_gather(failure, std::chrono::seconds(60), "the others")) {
      CAPTURE(leader_of);
      INFO(one);
      CHECK(one.empty());
    }
  }
}

void wait_until_closed(Member& member, const Batch& batch) {
  member.driver().wait_for([&] { return member.engine().poll_gate(batch.epoch, batch.number); });
}

void finish(Member& member, const Call& call) {
  member.engine().start();
  member.driver().wait_for([&] {
    Progress progress = Progress::moved;
    while (progress == Progress::moved) progress = member.engine().step();
    return progress == Progress::done;
  });
  if (!call.right(member.topology().size)) throw std::runtime_error("a wrong result");
}

}  // namespace

TEST_CASE("what a gate carries arrives though the coordinator closes it on some of the ranks") {
  on_all_placements([](Member& member) {
    const tutti::topology::Topology& topology = member.topology();
    std::mt19937_64 random(7);
    std::mt19937_64 own(static_cast<unsigned>(topology.rank));
    std::uint32_t epoch = 1;
    for (std::uint64_t number = 0; number < 64; ++number) {
      Plan plan = Plan::random(random, topology.size);
      if (random() % 8 == 0) plan.count = 0;
      const Call call(plan, topology.rank, epoch, number);
      member.engine().enter(call.batch());
      if (random() % 2 == 0) {
        wait_until_closed(member, call.batch());
      } else {
        member.meet();
        bool closed = false;
        for (std::uint64_t looks = own() % 30; !closed && looks > 0; --looks) {
          closed = member.engine().poll_gate(epoch, number);
        }
        // The coordinator does the same when it lets the ranks go on.
        ++epoch;
      }
      finish(member, call);
    }
    member.meet();
  });
}

TEST_CASE("what gates sum has the bits of one sum over all ranks") {
  on_all_placements([](Member& member) {
    const tutti::topology::Topology& topology = member.topology();
    const auto ranks = static_cast<std::size_t>(topology.size);
    std::mt19937_64 random(10);
    std::uint64_t number = 0;
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      // The sum of several ranks on a node is rounded to 16 bits.
      if (size_of(dtype) == 2 && topology.nodes.size() != ranks) continue;
      constexpr std::size_t count = 500;
      const tutti::reduce::Kernel kernel{dtype, dtype, tutti::ReduceOp::average, 3};
      const auto sources = reference::random_sources(dtype, ranks, count, random);
      reference::Bytes mine = sources[static_cast<std::size_t>(topology.rank)];
      const void* const in = mine.data();
      void* const out = mine.data();
      Batch batch;
      batch.epoch = 1;
      batch.number = number++;
      batch.dtype = dtype;
      batch.op = kernel.op;
      batch.divisor = kernel.divisor;
      batch.parts.push_back({{&in, 1}, {&out, 1}, count});
      member.driver().run({&batch, 1});
      std::vector<reference::Bytes> terms = sources;
      double last = kernel.divisor;
      if (size_of(dtype) == 2) {
        // 16 bits may not hold a sum whose average they hold, so everyone divides before.
        for (auto& term : terms) term = reference::reduced(kernel, {term}, count);
        last = 1;
      }
      if (mine != reference::reduced({dtype, dtype, kernel.op, last}, terms, count)) {
        throw std::runtime_error("other bits than the serial sum's, of " +
                                 std::string(name(dtype)));
      }
    }
    member.meet();
  });
}

TEST_CASE("a gate that does not close leaves nothing behind for those of the next epoch") {
  on_all_placements([](Member& member) {
    const tutti::topology::Topology& topology = member.topology();
    std::mt19937_64 random(8);
    std::mt19937_64 own(static_cast<unsigned>(topology.rank));
    for (std::uint32_t epoch = 1; epoch <= 16; ++epoch) {
      const Call first(Plan::random(random, topology.size), topology.rank, epoch, 0);
      const Call withdrawn(Plan::random(random, topology.size), topology.rank, epoch, 1);
      member.engine().enter(first.batch());
      wait_until_closed(member, first.batch());
      const auto late = static_cast<int>(random() % static_cast<std::uint64_t>(topology.size));
      finish(member, first);
      if (topology.rank != late) {
        member.engine().enter(withdrawn.batch());
        for (std::uint64_t look = own() % 50; look > 0; --look) {
          if (member.engine().poll_gate(epoch, 1))
            throw std::runtime_error("closed without a rank");
        }
        member.engine().withdraw(epoch, 1);
      }
      // Those that it waits for may be of the next epoch already.
      if (random() % 2 == 0) member.meet();
    }
    member.meet();
  });
}
