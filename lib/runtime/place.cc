#include "runtime/place.h"

#include <fmt/format.h>

#include "base/failure.h"
#include "coordinator/text.h"

namespace tutti::runtime {

int Place::world_rank() const {
  return world_ranks.empty() ? rank : world_ranks[static_cast<std::size_t>(rank)];
}

std::string Place::explain(std::string message) const {
  if (world_ranks.empty()) return message;
  return fmt::format("{} (the store's ranks 0 to {} are the job's {})", message, size - 1,
                     coordinator::rank_list(world_ranks));
}

std::string Place::announce(int lost, const std::string& message) const {
  if (world_ranks.empty()) return message;
  const std::string head = fmt::format("rank {} is lost: ", lost);
  const bool is_said = message.starts_with(head);
  return explain(fmt::format("rank {} is lost: {}", world_ranks[static_cast<std::size_t>(lost)],
                             is_said ? message.substr(head.size()) : message));
}

Error Place::explain(const Error& error) const {
  return world_ranks.empty() ? error : base::reworded(error, explain(std::string(error.what())));
}

}  // namespace tutti::runtime
