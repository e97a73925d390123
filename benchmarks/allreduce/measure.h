#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "benchmarks/allreduce/contestant.h"
#include "benchmarks/allreduce/pattern.h"
#include "benchmarks/allreduce/settings.h"
#include "benchmarks/allreduce/times.h"
#include "benchmarks/allreduce/world.h"

namespace tutti::bench {

/// The result of one implementation at one size.
struct Row {
  std::string impl;
  std::string version;
  bool shared = false;
  Case how{};
  std::size_t count = 0;
  int iterations = 0;
  Times times;              ///< microseconds; an iteration takes as long as on its slowest rank
  std::uint64_t wrong = 0;  ///< wrong elements, over all ranks and turns, warm-up included
  /// The bytes a second that all ranks of one machine read and write when they copy buffers of this
  /// size at once; 0: not measured.
  double copy_rate = 0;
};

/// Runs all contestants in turn. Collective over the world.
class Race {
 public:
  Race(const World& world, const Settings& settings,
       std::vector<std::unique_ptr<Contestant>> contestants);

  /// A row for each contestant, in their order.
  std::vector<Row> run(const Case& how, std::size_t count);

 private:
  struct Lane {
    Contestant* contestant;
    Buffers buffers;
    std::vector<double> microseconds;
    std::uint64_t wrong = 0;
  };
  void turn(Lane& lane);
  void turns(std::vector<Lane>& lanes, int number);
  /// Returns the number of turns.
  int adaptive_turns(std::vector<Lane>& lanes);
  std::uint64_t wrong(const Buffers& buffers) const;
  std::uint64_t wrong_in_shares(const Buffers& buffers) const;
  /// Overwrites the buffers.
  double copy_rate(const Buffers& own) const;

  const World& world_;
  const Settings& settings_;
  std::vector<std::unique_ptr<Contestant>> contestants_;
  Case case_;
  Pattern pattern_;         ///< of the case
  std::uint64_t turn_ = 0;  ///< the same on all ranks
};

}  // namespace tutti::bench
