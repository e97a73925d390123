#include "benchmarks/allreduce/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Race::Race(const World& world, const Settings& settings,
           std::vector<std::unique_ptr<Contestant>> contestants)
    : world_(world),
      settings_(settings),
      contestants_(std::move(contestants)),
      pattern_(settings.dtype, world.size()) {}

std::uint64_t Race::wrong(const Buffers& buffers) const {
  const int rank = world_.rank();
  const int size = world_.size();
  switch (case_.op) {
    case Operation::allreduce:
      return pattern_.wrong_in_sum(buffers.out, buffers.out_count, turn_);
    case Operation::reduce_scatter:
      return pattern_.wrong_in_sum(buffers.out, buffers.out_count, turn_,
                                   static_cast<std::size_t>(rank) * buffers.out_count);
    case Operation::broadcast:
      return pattern_.wrong_in_copy(buffers.out, buffers.out_count, settings_.root, turn_);
    case Operation::sendrecv:
      return pattern_.wrong_in_copy(buffers.out, buffers.out_count, (rank + size - 1) % size,
                                    turn_);
    default:
      return wrong_in_shares(buffers);
  }
}

/// Counts the wrong elements of an allgather or an all_to_all, whose result has a share from each
/// rank.
std::uint64_t Race::wrong_in_shares(const Buffers& buffers) const {
  const auto ranks = static_cast<std::size_t>(world_.size());
  const std::size_t share = buffers.out_count / ranks;
  const std::size_t first =
      case_.op == Operation::all_to_all ? static_cast<std::size_t>(world_.rank()) * share : 0;
  const std::byte* const out = static_cast<const std::byte*>(buffers.out);
  std::uint64_t wrong = 0;
  for (std::size_t from = 0; from < ranks; ++from) {
    wrong += pattern_.wrong_in_copy(out + from * share * size_of(settings_.dtype), share,
                                    static_cast<int>(from), turn_, first);
  }
  return wrong;
}

double Race::copy_rate(const Buffers& own) const {
  // Below this the time is that of a call, and not of the memory.
  constexpr std::size_t least = std::size_t{64} << 10;
  constexpr int passes = 3;
  const std::size_t width = size_of(settings_.dtype);
  const bool one_into_other = !case_.in_place && own.in_count == own.out_count;
  // Else the first half of the larger buffer into its second half.
  const std::size_t bytes =
      std::max(own.in_count, own.out_count) * width / (one_into_other ? 1 : 2);
  if (settings_.gpu || world_.size() == 1 || !world_.is_one_machine() || bytes < least) return 0;
  auto* const larger = static_cast<std::byte*>(own.in_count > own.out_count ? own.in : own.out);
  const void* const from = one_into_other ? own.in : larger;
  void* const to = one_into_other ? own.out : larger + bytes;
  double best = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < passes; ++pass) {
    world_.barrier();
    const Clock::time_point start = Clock::now();
    std::memcpy(to, from, bytes);
    const double mine = seconds_since(start);
    world_.barrier();
    best = std::min(best, world_.largest(mine));
  }
  return 2.0 * static_cast<double>(bytes) * world_.size() / best;
}

void Race::turn(Lane& lane) {
  const Buffers& buffers = lane.buffers;
  // Filled before every turn: old results would pass the check, and buffers that nobody has written
  // would be read faster than real ones.
  pattern_.fill(buffers.out, buffers.out_count, world_.rank(), turn_ + 1);
  pattern_.fill(buffers.in, buffers.in_count, world_.rank(), turn_);
  lane.contestant->take_input();
  if (settings_.rest > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(settings_.rest));
  }
  world_.barrier();
  const Clock::time_point start = Clock::now();
  lane.contestant->run();
  lane.microseconds.push_back(seconds_since(start) * 1e6);
  // Wait for all ranks, for checking must not take a processor from a rank that still works.
  world_.barrier();
  if (!settings_.check) return;
  lane.contestant->give_result();
  lane.wrong += wrong(buffers);
}

void Race::turns(std::vector<Lane>& lanes, int number) {
  for (int i = 0; i < number; ++i, ++turn_) {
    for (Lane& lane : lanes) turn(lane);
  }
}

/// Ranks measure different times, so after every few turns they agree whether to go on.
int Race::adaptive_turns(std::vector<Lane>& lanes) {
  const int step = settings_.least;
  constexpr int most = 1000;
  const Clock::time_point start = Clock::now();
  int done = 0;
  do {
    turns(lanes, step);
    done += step;
  } while (done < most && world_.largest(seconds_since(start)) < settings_.seconds);
  return done;
}

std::vector<Row> Race::run(const Case& how, std::size_t count) {
  case_ = how;
  pattern_ = Pattern(settings_.dtype, world_.size(), how.redop);
  const std::size_t width = size_of(settings_.dtype);
  const std::size_t shard = count / static_cast<std::size_t>(world_.size());
  const std::size_t in_count = how.op == Operation::allgather ? shard : count;
  const std::size_t out_count = how.op == Operation::reduce_scatter ? shard : count;
  std::vector<std::byte> in(how.in_place ? 0 : in_count * width);
  std::vector<std::byte> out((how.in_place ? count : out_count) * width);
  // In place the smaller one is this rank's shard of the other.
  const auto mine = [&](std::size_t elements) {
    const std::size_t skipped = elements < count ? static_cast<std::size_t>(world_.rank()) : 0;
    return out.data() + skipped * shard * width;
  };
  const Buffers own{how.in_place ? mine(in_count) : in.data(),
                    how.in_place ? mine(out_count) : out.data(), in_count, out_count};
  std::vector<Lane> lanes;
  for (const auto& contestant : contestants_) {
    lanes.push_back({contestant.get(), contestant->prepare(how, own), {}});
  }
  turns(lanes, settings_.warmup);
  const double rate = copy_rate(own);
  for (Lane& lane : lanes) lane.microseconds.clear();
  int iterations = settings_.iterations;
  if (iterations > 0) {
    turns(lanes, iterations);
  } else {
    iterations = adaptive_turns(lanes);
  }

  std::vector<Row> rows;
  for (Lane& lane : lanes) {
    const double wrong = world_.sum(static_cast<double>(lane.wrong));
    const Contestant& who = *lane.contestant;
    rows.push_back({who.impl(), who.version(), who.shared(), how, count, iterations,
                    summarise(world_.largest(std::move(lane.microseconds))),
                    static_cast<std::uint64_t>(wrong), rate});
  }
  return rows;
}

}  // namespace tutti::bench
