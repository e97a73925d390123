#include "ps/protocol/missing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace tutti::ps {

Failure not_made(std::vector<int> workers, std::string_view what) {
  const bool is_one = workers.size() == 1;
  return {ErrorCode::timeout,
          fmt::format("worker{} {} {} not made {} {}", is_one ? "" : "s", fmt::join(workers, ", "),
                      is_one ? "has" : "have", is_one ? "its" : "their", what),
          std::move(workers)};
}

}  // namespace tutti::ps
