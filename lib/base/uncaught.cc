#include "base/uncaught.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/log.h"
#include "base/printable.h"
#include "tutti/error.h"

namespace tutti::base {
namespace {

constexpr auto usual = __gnu_cxx::__verbose_terminate_handler;

void say(const Error& error) {
  const std::string text =
      fmt::format("the program ends, because it does not catch this error: {}: {}",
                  name(error.code()), printable(error.what()));
  if (log().should_log(spdlog::level::critical)) {
    log().critical("{}", text);
  } else {
    fmt::print(stderr, "tutti: {}\n", text);
  }
}

[[noreturn]] void end() {
  try {
    if (const std::exception_ptr raised = std::current_exception()) std::rethrow_exception(raised);
  } catch (const Error& error) {
    say(error);
    std::signal(SIGABRT, SIG_DFL);
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
