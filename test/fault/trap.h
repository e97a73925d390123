#pragma once
#include <sys/mman.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <span>
#include <stdexcept>

namespace fault {

/// Floats (whole pages) whose second half can be a trap. The first thread that reads or writes
/// there runs `act`, and then goes on. So a test can strike in the middle of moving a tensor, at
/// the same place in every run. A process has one trap at a time.
class TrappedFloats {
 public:
  explicit TrappedFloats(std::size_t count) : bytes_(count * sizeof(float)) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::runtime_error("no memory for a trap");
  }
  ~TrappedFloats() {
    only() = nullptr;
    ::munmap(memory_, bytes_);
  }
  TrappedFloats(const TrappedFloats&) = delete;
  TrappedFloats& operator=(const TrappedFloats&) = delete;

  std::span<float> all() const { return {static_cast<float*>(memory_), bytes_ / sizeof(float)}; }

  /// `act` runs in a signal handler.
  void set(void (*act)()) {
    act_ = act;
    only() = this;
    struct sigaction action {};
    action.sa_sigaction = spring;
    action.sa_flags = static_cast<int>(SA_SIGINFO | SA_RESETHAND);
    if (::sigaction(SIGSEGV, &action, nullptr) != 0) throw std::runtime_error("no trap");
    if (::mprotect(half(), bytes_ / 2, PROT_NONE) != 0) throw std::runtime_error("no trap");
  }

 private:
  static TrappedFloats*& only() {
    static TrappedFloats* trap = nullptr;
    return trap;
  }
  void* half() const { return static_cast<char*>(memory_) + bytes_ / 2; }

  /// A fault anywhere else comes back at once, and ends the process.
  static void spring(int signal, siginfo_t* info, void* context) {
    static_cast<void>(signal), static_cast<void>(context);
    TrappedFloats* const trap = only();
    const auto* const at = static_cast<char*>(info->si_addr);
    const auto* const start = trap == nullptr ? nullptr : static_cast<char*>(trap->half());
    if (start == nullptr || at < start || at >= start + trap->bytes_ / 2) return;
    ::mprotect(trap->half(), trap->bytes_ / 2, PROT_READ | PROT_WRITE);
    trap->act_();
  }

  void* memory_ = nullptr;
  std::size_t bytes_;
  void (*act_)() = nullptr;
};

}  // namespace fault
