#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "net/handshake.h"
#include "net/reception.h"
#include "net/sockets.h"
#include "tutti/error.h"

namespace tutti::net {
namespace {

[[noreturn]] void throw_missing(const Identity& me, const std::vector<int>& expected,
                                const base::Patience& patience) {
  throw Error(
      ErrorCode::timeout,
      fmt::format("{} gave up waiting for rank(s) {} to connect{}; are they running, and does "
                  "the network let them through?{}",
                  me.describe(), fmt::join(expected, ", "), patience.when(), patience.advice()));
}

}  // namespace

std::vector<ProvenPeer> accept_peers(const base::Fd& listener, const Identity& me,
                                     std::vector<int> expected, const base::Patience& patience) {
  std::vector<ProvenPeer> proven;
  const auto expects = [&](int rank) {
    return std::ranges::find(expected, rank) != expected.end();
  };
  Reception reception(listener, me, {expects, expected.size()}, patience.when());
  while (!expected.empty()) {
    patience.look_now();
    if (patience.over()) throw_missing(me, expected, patience);
    const auto next_look = patience.next_look();
    wait_readable(reception.descriptor(),
                  std::min(next_look, reception.deadline().value_or(next_look)));
    for (ProvenPeer& peer : reception.advance()) {
      if (std::erase(expected, peer.rank) > 0) proven.push_back(std::move(peer));
    }
  }
  return proven;
}

}  // namespace tutti::net
