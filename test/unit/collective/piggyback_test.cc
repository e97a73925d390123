#include "collective/piggyback.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "../reduce/reference.h"
#include "mpi/communicator.h"

using tutti::collective::Piggyback;
using Kind = Piggyback::Kind;
using reference::Bytes;
using tutti::reduce::Kernel;

namespace {

/// All nodes of a job, whose messages arrive round by round.
class Nodes {
 public:
  explicit Nodes(std::size_t count) {
    for (std::size_t node = 0; node < count; ++node) freights_.emplace_back(count, node);
  }

  std::size_t size() const { return freights_.size(); }
  std::size_t rounds() const { return freights_[0].rounds().size(); }
  Piggyback& operator[](std::size_t node) { return freights_[node]; }
  const Piggyback::Round& round(std::size_t node, std::size_t index) const {
    return freights_[node].rounds()[index];
  }

  void load(Kind kind, const std::vector<Bytes>& blocks, const Kernel& kernel = {},
            std::size_t root = 0) {
    for (std::size_t node = 0; node < size(); ++node) {
      freights_[node].load({kind, blocks[node], kernel, root});
    }
  }

  /// Returns the messages that every node sends in a round, and lets them arrive.
  std::vector<Bytes> play(std::size_t index) {
    std::vector<Bytes> sent;
    for (std::size_t node = 0; node < size(); ++node) {
      const auto message = freights_[node].outgoing(round(node, index));
      sent.emplace_back(message.begin(), message.end());
    }
    for (std::size_t node = 0; node < size(); ++node) {
      freights_[node].take(round(node, index), sent[round(node, index).from].data());
    }
    return sent;
  }

  /// All rounds; the longest message, and the sum of all.
  std::pair<std::size_t, std::size_t> play() {
    std::size_t longest = 0;
    std::size_t sum = 0;
    for (std::size_t index = 0; index < rounds(); ++index) {
      for (const Bytes& message : play(index)) {
        longest = std::max(longest, message.size());
        sum += message.size();
      }
    }
    return {longest, sum};
  }

 private:
  std::vector<Piggyback> freights_;
};

std::vector<Bytes> random_blocks(std::size_t nodes, std::size_t bytes, std::mt19937_64& random) {
  return reference::random_sources(tutti::DType::u8, nodes, bytes, random);
}

Bytes copy(const std::byte* from, std::size_t bytes) {
  return {from, from + bytes};
}

void check_gathered(Nodes& nodes, const std::vector<Bytes>& blocks) {
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (std::size_t of = 0; of < nodes.size(); ++of) {
      CAPTURE(node, of);
      CHECK((copy(nodes[node].block(of), blocks[of].size()) == blocks[of]));
    }
  }
}

void check_results(Nodes& nodes, const Bytes& expected) {
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    CAPTURE(node);
    CHECK((copy(nodes[node].result(), expected.size()) == expected));
  }
}

/// Kernels of which a gate may carry partial sums.
std::vector<Kernel> exact_kernels(double divisor) {
  std::vector<Kernel> kernels = reference::all_kernels(divisor);
  std::erase_if(kernels, [](const Kernel& kernel) {
    return kernel.in != kernel.out || kernel.in == tutti::DType::f16 ||
           kernel.in == tutti::DType::bf16;
  });
  return kernels;
}

}  // namespace

TEST_CASE("after as many rounds as doublings every node has heard from all, from one in each") {
  for (std::size_t count = 1; count <= 33; ++count) {
    CAPTURE(count);
    const Nodes nodes(count);
    REQUIRE(nodes.rounds() == static_cast<std::size_t>(std::bit_width(count - 1)));
    std::vector<std::vector<bool>> heard(count, std::vector<bool>(count));
    for (std::size_t node = 0; node < count; ++node) heard[node][node] = true;
    for (std::size_t index = 0; index < nodes.rounds(); ++index) {
      const auto before = heard;
      for (std::size_t node = 0; node < count; ++node) {
        const std::size_t from = nodes.round(node, index).from;
        REQUIRE(nodes.round(from, index).to == node);
        for (std::size_t of = 0; of < count; ++of) {
          if (before[from][of]) heard[node][of] = true;
        }
      }
    }
    CHECK(heard == std::vector<std::vector<bool>>(count, std::vector<bool>(count, true)));
  }
}

TEST_CASE("blocks are gathered on every node, each sent to a node once") {
  std::mt19937_64 random(1);
  for (std::size_t count = 1; count <= 17; ++count) {
    CAPTURE(count);
    Nodes nodes(count);
    const auto blocks = random_blocks(count, 1000, random);
    nodes.load(Kind::gathered, blocks);
    CHECK(nodes.play().second == count * (count - 1) * 1000);
    check_gathered(nodes, blocks);
  }
}

TEST_CASE("sums that are carried have the bits of one sum over all nodes") {
  std::mt19937_64 random(2);
  for (const std::size_t count : {1U, 2U, 4U, 8U, 16U}) {
    Nodes nodes(count);
    for (const auto& kernel : exact_kernels(static_cast<double>(count + 1))) {
      CAPTURE(count, name(kernel.in), name(kernel.op));
      if (count == 1) continue;
      const auto blocks = reference::random_sources(kernel.in, count, 300, random);
      nodes.load(Kind::summed, blocks, kernel);
      CHECK(nodes.play() == std::pair(blocks[0].size(), blocks[0].size() * count * nodes.rounds()));
      check_results(nodes, reference::reduced(kernel, blocks, 300));
    }
  }
}

TEST_CASE("one node's block is passed on to every other node once") {
  std::mt19937_64 random(3);
  for (std::size_t count = 1; count <= 17; ++count) {
    Nodes nodes(count);
    for (std::size_t root = 0; root < count; ++root) {
      CAPTURE(count, root);
      const auto blocks = random_blocks(count, 500, random);
      nodes.load(Kind::passed_on, blocks, {}, root);
      CHECK(nodes.play().second == (count - 1) * 500);
      check_results(nodes, blocks[root]);
    }
  }
}

TEST_CASE("a gate carries none of the data of the gate before it") {
  std::mt19937_64 random(4);
  const std::size_t count = GENERATE(2U, 3U, 4U, 7U, 8U);
  CAPTURE(count);
  Nodes nodes(count);
  for (int i = 0; i < 50; ++i) {
    const std::size_t bytes = 4 * (1 + random() % 300);
    const auto blocks = random_blocks(count, bytes, random);
    const std::size_t root = random() % count;
    nodes.load(Kind::none, std::vector<Bytes>(count));
    CHECK(nodes.play().second == 0);
    nodes.load(Kind::gathered, blocks);
    nodes.play();
    check_gathered(nodes, blocks);
    nodes.load(Kind::passed_on, blocks, {}, root);
    nodes.play();
    check_results(nodes, blocks[root]);
    if (!Piggyback::may_sum(count)) continue;
    const Kernel kernel{tutti::DType::i32, tutti::DType::i32};
    nodes.load(Kind::summed, blocks, kernel);
    nodes.play();
    check_results(nodes, reference::reduced(kernel, blocks, bytes / 4));
  }
}

TEST_CASE("the largest block makes messages that MPI sends at once, and a larger one would not") {
  constexpr std::size_t line = 64;
  const std::size_t room = tutti::mpi::message_bytes - Piggyback::header_bytes;
  for (std::size_t count = 2; count <= 17; ++count) {
    for (const Kind kind : {Kind::gathered, Kind::summed, Kind::passed_on}) {
      if (kind == Kind::summed && !Piggyback::may_sum(count)) continue;
      CAPTURE(count, kind);
      Nodes nodes(count);
      const std::size_t most = Piggyback::most_block(kind, count);
      nodes.load(kind, std::vector<Bytes>(count, Bytes(most)),
                 {tutti::DType::u8, tutti::DType::u8});
      const std::size_t longest = nodes.play().first;
      CHECK(longest <= room);
      CHECK(longest / most * (most + line) > room);
    }
  }
}
