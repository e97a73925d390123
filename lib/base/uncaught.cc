#include "base/uncaught.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "base/log.h"
#include "base/printable.h"
#include "tutti/error.h"

namespace tutti::base {
namespace {

constexpr auto usual = __gnu_cxx::__verbose_terminate_handler;

void say(const Error& error) {
  // The program may have caught the error: std::terminate also ends a handler that destroys a
  // thread which nobody has joined.
  const std::string text =
      fmt::format("the program ends by std::terminate after this error: {}: {}", name(error.code()),
                  printable(error.what()));
  const bool is_logged = log().should_log(spdlog::level::critical);
  if (is_logged) log().critical("{}", text);
  // A taker of the program's may have put the line aside for later, and there is no later.
  if (!is_logged || has_log_taker()) fmt::print(stderr, "tutti: {}\n", text);
}

/// Open MPI's handler writes a stack trace of some twenty lines. A handler of the program's stays.
void remove_handler_of_open_mpi() {
  struct sigaction now {};
  ::sigaction(SIGABRT, nullptr, &now);
  Dl_info owner{};
  const bool is_known = ::dladdr(reinterpret_cast<void*>(now.sa_sigaction), &owner) != 0;
  if (is_known && std::string_view(owner.dli_fname).find("libopen-pal") != std::string_view::npos) {
    std::signal(SIGABRT, SIG_DFL);
  }
}

[[noreturn]] void end() {
  try {
    if (const std::exception_ptr raised = std::current_exception()) std::rethrow_exception(raised);
  } catch (const Error& error) {
    say(error);
    remove_handler_of_open_mpi();
    std::abort();
  } catch (...) {  // told in the usual way
  }
  usual();
  std::abort();
}

}  // namespace

void shorten_uncaught_errors() {
  if (std::get_terminate() == usual) std::set_terminate(end);
}

}  // namespace tutti::base
