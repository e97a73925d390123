#include "benchmarks/allreduce/measure.h"

#include <chrono>
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
      pattern_(settings.dtype, world.size()),
      contestants_(std::move(contestants)) {}

std::uint64_t Race::wrong(const Buffers& buffers) const {
  const auto rank = static_cast<std::size_t>(world_.rank());
  switch (settings_.op) {
    case Operation::allreduce:
      return pattern_.wrong_in_sum(buffers.out, buffers.out_count, turn_);
    case Operation::broadcast:
      return pattern_.wrong_in_copy(buffers.out, buffers.out_count, settings_.root, turn_);
    case Operation::reduce_scatter:
      return pattern_.wrong_in_sum(buffers.out, buffers.out_count, turn_, rank * buffers.out_count);
    case Operation::allgather:
      break;
  }
  const std::byte* const out = static_cast<const std::byte*>(buffers.out);
  const std::size_t bytes = buffers.in_count * size_of(settings_.dtype);
  std::uint64_t wrong = 0;
  for (int from = 0; from < world_.size(); ++from) {
    wrong += pattern_.wrong_in_copy(out + static_cast<std::size_t>(from) * bytes, buffers.in_count,
                                    from, turn_);
  }
  return wrong;
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

std::vector<Row> Race::run(std::size_t count) {
  const std::size_t width = size_of(settings_.dtype);
  const bool one_buffer = settings_.in_place || settings_.op == Operation::broadcast;
  const std::size_t shard = count / static_cast<std::size_t>(world_.size());
  const std::size_t in_count = settings_.op == Operation::allgather ? shard : count;
  const std::size_t out_count = settings_.op == Operation::reduce_scatter ? shard : count;
  std::vector<std::byte> in(in_count * width);
  std::vector<std::byte> out(one_buffer ? 0 : out_count * width);
  const Buffers own{in.data(), one_buffer ? in.data() : out.data(), in_count, out_count};
  std::vector<Lane> lanes;
  for (const auto& contestant : contestants_) {
    lanes.push_back({contestant.get(), contestant->prepare(own), {}});
  }
  turns(lanes, settings_.warmup);
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
    rows.push_back({who.impl(), who.version(), who.shared(), count, iterations,
                    summarise(world_.largest(std::move(lane.microseconds))),
                    static_cast<std::uint64_t>(wrong)});
  }
  return rows;
}

}  // namespace tutti::bench
