#include "collective/relay.h"

#include <fmt/format.h>

#include "base/failure.h"

namespace tutti::collective {

Relay::Relay(const mpi::Communicator& communicator, int stream)
    : requests_(communicator), tag_(stream) {}

void Relay::start(const std::vector<int>& stops, std::size_t me, bool chain,
                  std::span<std::byte> chunk) {
  base::check(!receiving_ && sends_.empty(), "a relay is started when the one before is done");
  chunk_ = chunk;
  children_.clear();
  std::size_t parent = 0;
  if (chain) {
    parent = me - 1;
    if (me + 1 < stops.size()) children_.push_back(stops[me + 1]);
  } else {
    // Binomial tree: the parent lacks the highest bit of `me`; children add a higher one.
    std::size_t bit = 1;
    while (bit <= me) bit *= 2;
    parent = me - bit / 2;
    for (; me + bit < stops.size(); bit *= 2) children_.push_back(stops[me + bit]);
  }
  receiving_ = me != 0;
  if (receiving_) {
    receive_ = requests_.receive(stops[parent], tag_, chunk);
  } else {
    pass_on();
  }
}

void Relay::pass_on() {
  for (const int child : children_) {
    sends_.push_back(requests_.send(child, tag_, chunk_));
    bytes_sent_ += chunk_.size();
  }
}

bool Relay::arrived() {
  if (!receiving_) return true;
  requests_.progress();
  if (!requests_.done(receive_)) return false;
  receiving_ = false;
  pass_on();
  return true;
}

bool Relay::sent() {
  if (!arrived()) return false;
  if (sends_.empty()) return true;
  requests_.progress();
  std::erase_if(sends_, [&](mpi::Requests::Id id) { return requests_.done(id); });
  return sends_.empty();
}

std::string Relay::describe() const {
  return fmt::format("relay between nodes of {} bytes: {}", chunk_.size(), requests_.describe());
}

}  // namespace tutti::collective
