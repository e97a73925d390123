#include "training/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace training {
namespace {

/// What a process's descriptor is open on; empty when it cannot be told.
std::string target_of(pid_t process, int fd) {
  std::error_code unreadable;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", process, fd), unreadable)
      .string();
}

/// 0 when it cannot be told.
pid_t parent_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  pid_t parent = 0;
  for (std::string word; status >> word;) {
    if (word == "PPid:") status >> parent;
  }
  return parent;
}

/// Open MPI gives its processes a terminal of its own making for their output, and passes on what
/// comes through it: what counts there is where the output of the first process above goes that has
/// another one. Between may be shells.
bool leads_to_terminal(int fd) {
  if (std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return isatty(fd) == 1;
  const std::string ours = target_of(getpid(), fd);
  pid_t above = getppid();
  while (above > 1 && target_of(above, fd) == ours) above = parent_of(above);
  return target_of(above, fd).starts_with("/dev/pts/");
}

}  // namespace

void print(const std::string& line) {
  fmt::print("{}\n", line);
  if (std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot write to standard output");
  }
}

std::string describe(const EpochResult& result) {
  std::string by_worker;
  for (const double speed : result.samples_per_second) by_worker += fmt::format(" {:.0f}", speed);
  return fmt::format("Epoch {}: Train_loss {:.6f} Train_acc {:.6f}\n", result.epoch,
                     result.train_loss, result.train_accuracy) +
         (result.test_accuracy
              ? fmt::format("Epoch {}: Test_acc {:.6f}\n", result.epoch, *result.test_accuracy)
              : "") +
         fmt::format("Epoch {}: {:.0f} samples/s together, by worker:{}", result.epoch,
                     result.all_samples_per_second, by_worker);
}

Progress::Progress()
    // Through the same stream as the other lines, if it can be: those of two may overtake.
    : terminal_(leads_to_terminal(STDOUT_FILENO)   ? stdout
                : leads_to_terminal(STDERR_FILENO) ? stderr
                                                   : nullptr) {}

void Progress::show(int epoch, int epochs, std::size_t step, std::size_t steps,
                    const nn::Score& score) {
  constexpr std::size_t width = 30;
  const auto now = std::chrono::steady_clock::now();
  if (terminal_ == nullptr || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  const std::size_t filled = width * (step + 1) / steps;
  const auto samples = static_cast<double>(std::max<std::int64_t>(score.samples, 1));
  fmt::print(terminal_, "\repoch {}/{} [{:=<{}}{: <{}}] step {}/{} loss {:.4f} acc {:.4f}\x1b[K",
             epoch + 1, epochs, "", filled, "", width - filled, step + 1, steps,
             score.loss / samples, static_cast<double>(score.correct) / samples);
  std::fflush(terminal_);
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(terminal_, "\r\x1b[K");
  std::fflush(terminal_);
  shown_ = false;
}

}  // namespace training
