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

/// The file that a process's descriptor refers to; empty if that cannot be found out.
std::string target_of(pid_t process, int fd) {
  std::error_code unreadable;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", process, fd), unreadable)
      .string();
}

/// The parent process. 0 if it cannot be found out.
pid_t parent_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  pid_t parent = 0;
  for (std::string word; status >> word;) {
    if (word == "PPid:") status >> parent;
  }
  return parent;
}

/// Whether Open MPI started the process, or one above it that Open MPI started.
bool is_in_job(pid_t process) {
  std::ifstream environment(fmt::format("/proc/{}/environ", process));
  for (std::string one; std::getline(environment, one, '\0');) {
    if (one.starts_with("OMPI_COMM_WORLD_RANK=")) return true;
  }
  return false;
}

/// Whether the output goes to a terminal. Open MPI and tutti's launcher give processes a
/// pseudo-terminal for their output, and forward it. So this looks where the output of mpirun goes:
/// the first process above that is not in the job.
bool leads_to_terminal(int fd) {
  if (isatty(fd) != 1 || std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return isatty(fd) == 1;
  pid_t above = getppid();
  while (above > 1 && is_in_job(above)) above = parent_of(above);
  return target_of(above, fd).starts_with("/dev/pts/");
}

/// "epoch 1/20 step 12/782 loss 1.2345 acc 0.4321"
std::string describe(const Position& at, const nn::Score& score) {
  const auto samples = static_cast<double>(std::max<std::int64_t>(score.samples, 1));
  std::string words = fmt::format("epoch {}/{} {} {}/{}", at.epoch + 1, at.epochs,
                                  at.testing ? "test batch" : "step", at.step, at.steps);
  if (at.testing) return words;
  return words + fmt::format(" loss {:.4f} acc {:.4f}", score.loss / samples,
                             static_cast<double>(score.correct) / samples);
}

/// ", 35 s to go"; empty before the first step and after the last.
std::string remaining(const Position& at, Progress::Clock::duration passed) {
  if (at.step == 0 || at.step == at.steps) return {};
  const double seconds = std::chrono::duration<double>(passed).count() /
                         static_cast<double>(at.step) * static_cast<double>(at.steps - at.step);
  return seconds < 100 ? fmt::format(", {:.0f} s to go", seconds)
                       : fmt::format(", {:.0f} min to go", seconds / 60);
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
    // Uses standard output if possible, like the other lines, because lines of two streams may
    // overtake each other.
    : Progress(
          !leads_to_terminal(STDOUT_FILENO) && leads_to_terminal(STDERR_FILENO) ? stderr : stdout,
          leads_to_terminal(STDOUT_FILENO) || leads_to_terminal(STDERR_FILENO), Clock::now()) {}

Progress::Progress(std::FILE* stream, bool is_terminal, Clock::time_point now)
    : stream_(stream), is_terminal_(is_terminal), last_(now), begun_(now) {}

void Progress::show(const Position& at, const nn::Score& score, Clock::time_point now) {
  if (at.step == 0) last_ = begun_ = now;
  const auto pause = is_terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(30);
  if (now - last_ < pause) return;
  last_ = now;
  const std::string line = describe(at, score) + remaining(at, now - begun_);
  if (is_terminal_) return overwrite(line);
  fmt::print(stream_, "{}\n", line);
  std::fflush(stream_);
}

void Progress::overwrite(const std::string& line) {
  shown_ = true;
  fmt::print(stream_, "\r{}\x1b[K", line);
  std::fflush(stream_);
}

void Progress::clear() {
  if (!shown_) return;
  overwrite("");
  shown_ = false;
}

}  // namespace training
