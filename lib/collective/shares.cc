#include "collective/shares.h"

namespace tutti::collective {
namespace {

/// The product may need 126 bits.
std::size_t fraction(std::size_t count, std::size_t part, std::size_t whole) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::size_t>(Wide{count} * part / whole);
}

}  // namespace

topology::Range Shares::share(int from, int to, topology::Range part) const {
  const std::size_t all = count(from, to);
  if (all == 0) return {0, 0};
  return {fraction(all, stretch.begin + part.begin, length),
          fraction(all, stretch.begin + part.end, length)};
}

}  // namespace tutti::collective
