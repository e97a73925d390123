#pragma once
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

#include "training/trainer.h"

namespace training {

/// Prints a line to standard output in one piece, so that lines of several processes do not mix.
/// Throws std::system_error if it cannot be written.
void print(const std::string& line);

/// `Epoch N: ...`, several lines.
std::string describe(const EpochResult& result);

/// The position of a worker in an epoch.
struct Position {
  int epoch, epochs;
  std::size_t step, steps;  ///< `step` is done
  bool testing;             ///< steps are batches of test images
};

/// Shows how far an epoch has come. On a terminal it is one line that overwrites itself, at most
/// ten times a second. Elsewhere it is a line of its own, twice a minute.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// Uses standard output, or the error stream if only that is a terminal.
  Progress();
  Progress(std::FILE* stream, bool is_terminal, Clock::time_point now);

  void show(const Position& at, const nn::Score& score, Clock::time_point now = Clock::now());
  /// Removes the line, so that another one can be printed.
  void clear();

 private:
  void overwrite(const std::string& line);

  std::FILE* stream_;
  bool is_terminal_;
  bool shown_ = false;
  Clock::time_point last_;
  Clock::time_point begun_;  ///< of the epoch, or of its test
};

}  // namespace training
