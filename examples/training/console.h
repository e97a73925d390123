#pragma once
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

#include "training/trainer.h"

namespace training {

/// Prints a line to standard output in one piece, so that lines of several processes do not mix.
/// Throws std::system_error when it cannot be written.
void print(const std::string& line);

/// `Epoch N: ...`, several lines.
std::string describe(const EpochResult& result);

/// A line on the terminal that overwrites itself; nothing where the output is no terminal.
class Progress {
 public:
  Progress();
  /// At most ten times a second.
  void show(int epoch, int epochs, std::size_t step, std::size_t steps, const nn::Score& score);
  void clear();

 private:
  std::FILE* terminal_;  ///< null: there is none
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace training
