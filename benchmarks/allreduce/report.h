#pragma once
#include <string>
#include <vector>

#include "benchmarks/allreduce/measure.h"

namespace tutti::bench {

/// `algorithm`: bytes a second that the caller sees (S / t). `bus`: bytes a second that a link of
/// an ideal ring would carry (times `bus_factor`). `bound`: the same if the operation took no
/// longer than the memory of the one host, or the busiest link, needs for its bytes; 0: not known.
/// 1 GB is 10^9 bytes.
struct Bandwidth {
  double algorithm = 0;
  double bus = 0;
  double bound = 0;
};

/// The facts about the whole run, for the table and the files.
struct Setup {
  const Settings& settings;
  int ranks;
  std::vector<int> host_of_rank;
  std::string mapping;
  std::vector<std::string> facts;
  std::string begin{};  ///< the date and the command

  int hosts() const;
};

Bandwidth bandwidth(const Row& row, const Setup& setup);

/// The lines of the head and of the tables, in the format of other benchmarks of collectives.
std::string head(const Setup& setup);
std::string columns(Operation op);
std::string lines(const std::vector<Row>& rows, const Setup& setup);
/// A JSON array with one object for each row, each on a line of its own.
std::string json(const std::vector<Row>& rows, const Setup& setup);
/// The same fields as comma-separated values, below a line of their names.
std::string csv(const std::vector<Row>& rows, const Setup& setup);

/// The last lines: the average busbw of each implementation, what is wrong, and what is too slow.
struct Verdict {
  bool passed = true;
  std::string text;
};
Verdict judge(const std::vector<Row>& rows, const Setup& setup);

}  // namespace tutti::bench
