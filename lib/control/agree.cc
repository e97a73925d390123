#include "control/agree.h"

#include <fmt/format.h>

#include <exception>

#include "tutti/error.h"

namespace tutti::control {
namespace {

// What a rank says: '+' and its value, or '-', the error's code and its text.
constexpr char good = '+';
constexpr char bad = '-';

ErrorCode code_of(const std::string& said) {
  return static_cast<ErrorCode>(said[1] - '0');
}

/// Others usually fail because the first one did: they time out or find it gone.
bool is_consequence(const std::string& said) {
  return code_of(said) == ErrorCode::timeout || code_of(said) == ErrorCode::peer_lost;
}

/// The failure that the others follow from; null when nobody failed.
const std::string* cause_in(const std::vector<std::string>& said) {
  const std::string* cause = nullptr;
  for (const std::string& one : said) {
    if (one.front() != bad) continue;
    if (cause == nullptr || (is_consequence(*cause) && !is_consequence(one))) cause = &one;
  }
  return cause;
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
    mine = std::string{bad, code} + error.what();
  }
  std::vector<std::string> said = gather(mine);
  const std::string* const cause = cause_in(said);
  if (failure && (!is_consequence(mine) || is_consequence(*cause))) std::rethrow_exception(failure);
  if (cause != nullptr) {
    throw Error(code_of(*cause), fmt::format("rank {}: {}", cause - said.data(),
                                             std::string_view(*cause).substr(2)));
  }
  for (std::string& one : said) one.erase(0, 1);
  return said;
}

}  // namespace tutti::control
