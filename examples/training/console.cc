#include "training/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace training {

void print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

std::string describe(const EpochResult& result, bool tested) {
  std::string by_worker;
  for (const double speed : result.samples_per_second) by_worker += fmt::format(" {:.0f}", speed);
  return fmt::format("Epoch {}: Train_loss {:.6f} Train_acc {:.6f}\n", result.epoch,
                     result.train_loss, result.train_accuracy) +
         (tested ? fmt::format("Epoch {}: Test_acc {:.6f}\n", result.epoch, result.test_accuracy)
                 : "") +
         fmt::format("Epoch {}: {:.0f} samples/s together, by worker:{}", result.epoch,
                     result.all_samples_per_second, by_worker);
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::show(int epoch, int epochs, std::size_t step, std::size_t steps,
                    const nn::Score& score) {
  constexpr std::size_t width = 30;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  const std::size_t filled = width * (step + 1) / steps;
  const auto samples = static_cast<double>(std::max<std::int64_t>(score.samples, 1));
  fmt::print(stderr, "\repoch {}/{} [{:=<{}}{: <{}}] step {}/{} loss {:.4f} acc {:.4f}\x1b[K",
             epoch + 1, epochs, "", filled, "", width - filled, step + 1, steps,
             score.loss / samples, static_cast<double>(score.correct) / samples);
  std::fflush(stderr);
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace training
