#pragma once
#include <string>
#include <vector>

#include "benchmarks/allreduce/measure.h"

namespace tutti::bench {

/// Bytes a second that the caller sees (S / t), and that a link of an ideal ring would carry
/// (times 2(n-1)/n for an allreduce, (n-1)/n for one of its halves, 1 for a broadcast). 1 GB is
/// 10^9 bytes.
struct Bandwidth {
  double algorithm = 0;
  double bus = 0;
};
Bandwidth bandwidth(const Row& row, const Settings& settings, int ranks);

/// What the table and the JSON file say about the whole run.
struct Setup {
  const Settings& settings;
  int ranks;
  int hosts;
  std::string mapping;
  std::vector<std::string> facts;
};

/// Lines of the head and the table, in the shape known from other collectives' benchmarks.
std::string head(const Setup& setup);
std::string lines(const std::vector<Row>& rows, const Setup& setup);
/// An array with one object a row, each on a line of its own.
std::string json(const std::vector<Row>& rows, const Setup& setup);

}  // namespace tutti::bench
