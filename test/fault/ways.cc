#include "ways.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "variable.h"

namespace fault {
namespace {

using namespace std::chrono_literals;

void raise_by_default(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// The memory is limited, because the whole machine must not run out.
void take_memory() {
  constexpr std::size_t mib = std::size_t{1} << 20;
  for (;;) {
    std::vector<std::vector<char>> taken;
    while (taken.size() < 64) taken.emplace_back(mib, '\1');
  }
}

void throw_beside() {
  std::thread([] { throw std::runtime_error("nobody catches this"); }).join();
}

constexpr std::size_t longest_line = 80;
char terminated[longest_line];

void on_sigterm(int signal) {
  static_cast<void>(::write(STDOUT_FILENO, terminated, std::strlen(terminated)));
  raise_by_default(signal);
}

}  // namespace

int rank() {
  return number_in("OMPI_COMM_WORLD_RANK");
}

void say_when_terminated() {
  *fmt::format_to_n(terminated, longest_line - 1, "rank {} was ended by SIGTERM\n", rank()).out = 0;
  std::signal(SIGTERM, on_sigterm);
}

void go_wrong(const std::string& how) {
  static const std::map<std::string, void (*)()> ways = {
      {"kill", [] { std::raise(SIGKILL); }},
      {"segv", [] { raise_by_default(SIGSEGV); }},
      {"abort", [] { std::abort(); }},
      {"term", [] { raise_by_default(SIGTERM); }},
      {"oom", take_memory},
      {"terminate", throw_beside},
      {"exit0", [] { std::exit(0); }},
      {"exit3", [] { std::exit(3); }},
      {"vanish", [] { std::_Exit(0); }},
      {"throw", [] { throw Unwinding(); }},
      {"stop", [] { ::kill(::getpid(), SIGSTOP); }},
      {"nap", [] { std::this_thread::sleep_for(1500ms); }}};
  const auto way = ways.at(how);
  fmt::print("rank {} (process {}) goes wrong: {}\n", rank(), ::getpid(), how);
  std::fflush(stdout);
  way();
}

}  // namespace fault
