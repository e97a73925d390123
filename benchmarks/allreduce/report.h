#pragma once
#include <string>
#include <vector>

#include "benchmarks/allreduce/measure.h"

namespace tutti::bench {

/// `algorithm`: bytes a second that the caller sees (S / t). `bus`: bytes a second that a link of
/// an ideal ring would carry (times 2(n-1)/n for an allreduce, (n-1)/n for one of its halves, 1 for
/// a broadcast). 1 GB is 10^9 bytes.
struct Bandwidth {
  double algorithm = 0;
  double bus = 0;
};
Bandwidth bandwidth(const Row& row, const Settings& settings, int ranks);

/// The facts about the whole run, for the table and the JSON file.
struct Setup {
  const Settings& settings;
  int ranks;
  int hosts;
  std::string mapping;
  std::vector<std::string> facts;
};

/// The lines of the head and of the table, in the format of other benchmarks of collectives.
std::string head(const Setup& setup);
std::string lines(const std::vector<Row>& rows, const Setup& setup);
/// A JSON array with one object for each row, each on a line of its own.
std::string json(const std::vector<Row>& rows, const Setup& setup);

}  // namespace tutti::bench
