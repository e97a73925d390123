#include "control/agree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <iterator>
#include <sstream>
#include <utility>

#include "tutti/error.h"

namespace tutti::control {
namespace {

// A rank's text is '+' and its value; or it is '-', the error's code, its ranks, ';' and the
// error's text.
constexpr char good = '+';
constexpr char bad = '-';
constexpr char end_of_ranks = ';';

ErrorCode code_of(const std::string& said) {
  return static_cast<ErrorCode>(said[1] - '0');
}

/// Other ranks usually fail because the first one did: they time out, or find that it is gone.
bool is_consequence(const std::string& said) {
  return code_of(said) == ErrorCode::timeout || code_of(said) == ErrorCode::peer_lost;
}

/// The failure that caused the others. Null if no rank failed.
const std::string* cause_in(const std::vector<std::string>& said) {
  const std::string* cause = nullptr;
  for (const std::string& one : said) {
    if (one.front() != bad) continue;
    if (cause == nullptr || (is_consequence(*cause) && !is_consequence(one))) cause = &one;
  }
  return cause;
}

/// The error that another rank throws for the failure of `rank`.
Error failure_of(const std::string& said, int rank) {
  const std::size_t end = said.find(end_of_ranks);
  std::istringstream numbers(said.substr(2, end - 2));
  std::vector<int> ranks(std::istream_iterator<int>(numbers), {});
  if (ranks.empty()) ranks.push_back(rank);
  const std::string text = said.substr(end + 1);
  const std::string who = fmt::format("rank {}", rank);
  const bool is_named = text.starts_with(who + " ");
  return {
      code_of(said), is_named ? text : who + ": " + text, {.key = {}, .ranks = std::move(ranks)}};
}

}  // namespace

std::vector<std::string> agree(const AllGather& gather, const std::function<std::string()>& step) {
  std::string mine;
  std::exception_ptr failure;
  try {
    mine = good + step();
  } catch (const Error& error) {
    failure = std::current_exception();
    const char code = static_cast<char>('0' + static_cast<int>(error.code()));
    mine = fmt::format("{}{}{}{}{}", bad, code, fmt::join(error.ranks(), " "), end_of_ranks,
                       error.what());
  }
  std::vector<std::string> said = gather(mine);
  const std::string* const cause = cause_in(said);
  if (failure && (!is_consequence(mine) || is_consequence(*cause))) std::rethrow_exception(failure);
  if (cause != nullptr) {
    throw failure_of(*cause, static_cast<int>(cause - said.data()));
  }
  for (std::string& one : said) one.erase(0, 1);
  return said;
}

}  // namespace tutti::control
