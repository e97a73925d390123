#include "coordinator/cycles.h"

#include <algorithm>
#include <utility>

#include "coordinator/fingerprint_of.h"

namespace tutti::coordinator {
namespace {

/// The number of earlier uses of the last key that are tried as the beginning of a cycle. A cycle
/// may use a key several times.
constexpr int candidates = 8;

// The sum of these hashes tells whether two lists use the same keys equally often.
std::uint64_t mixed(KeyId id) {
  std::uint64_t x = (id + 1) * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// The most batches that one batch may pass. Planning runs no further ahead of slow data.
constexpr std::size_t most_passed = 256;

/// Whether the urgent batch may pass the other one. The parts of a tensor, and the uses of a key,
/// keep their order.
bool may_pass(const RecordedBatch& urgent, const RecordedBatch& other) {
  const std::vector<PlanPart>& parts = urgent.batch.parts;
  return urgent.priority > other.priority &&
         std::none_of(other.batch.parts.begin(), other.batch.parts.end(), [&](const auto& theirs) {
           return std::any_of(parts.begin(), parts.end(),
                              [&](const auto& mine) { return mine.id == theirs.id; });
         });
}

}  // namespace

void Cycle::bring_forward(std::size_t from) {
  std::vector<RecordedBatch> order;
  std::vector<std::size_t> places;  // where the batches of `order` were planned
  for (std::size_t place = 0; place < batches.size(); ++place) {
    const std::size_t begin = place < from ? 0 : from;
    const std::size_t passes = std::min({place, batches[place].waiting, most_passed});
    const std::size_t earliest = place - passes;
    std::size_t to = place;
    while (to > begin && places[to - 1] >= earliest && may_pass(batches[place], order[to - 1]))
      --to;
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), std::move(batches[place]));
    places.insert(places.begin() + static_cast<std::ptrdiff_t>(to), place);
  }
  batches = std::move(order);
}

void CycleFinder::add(const RecordedBatch& recorded, const std::vector<KeyId>& completes,
                      bool leaves_none_open) {
  const PlanBatch& batch = recorded.batch;
  if (parts_ + batch.parts.size() > most_parts) restart(first_ + batches_.size());
  batches_.push_back(recorded);
  parts_ += batch.parts.size();
  for (const KeyId id : completes) {
    const std::size_t here = uses_.size();
    const auto [last, fresh] = last_use_.try_emplace(id, here);
    uses_.push_back({.sum = before(here).sum + mixed(id),
                     .batches = batches_.size(),
                     .parts = parts_,
                     .cut = false,
                     .period = here - last->second});
    last->second = here;
  }
  if (!uses_.empty() && leaves_none_open) {
    uses_.back().cut = true;
    uses_.back().batches = batches_.size();
    uses_.back().parts = parts_;
  }
}

// Demands at most half of the remembered uses, because the memory may begin in the middle of a
// step.
bool CycleFinder::repeats(std::size_t period) const {
  const std::size_t end = uses_.size();
  if (end < 2 * period || !uses_[end - period - 1].cut) return false;
  const std::size_t parts = uses_.back().parts - before(end - period).parts;
  const std::size_t wanted = std::min(demanded_, most_parts / 2 * period / parts);
  const std::size_t times = std::max<std::size_t>(2, (wanted + period - 1) / period);
  if (times > end / period) return false;
  const auto since = [&](std::size_t use) { return uses_.back().sum - before(use).sum; };
  const std::uint64_t once = since(end - period);
  return since(end - 2 * period) == once * 2 && since(end - times * period) == once * times;
}

std::optional<Cycle> CycleFinder::find() const {
  if (uses_.empty() || !uses_.back().cut) return std::nullopt;
  std::size_t use = uses_.size() - 1;
  for (int i = 0; i < candidates && uses_[use].period > 0; ++i) {
    use -= uses_[use].period;
    const std::size_t period = uses_.size() - 1 - use;
    if (!repeats(period)) continue;
    const std::size_t begin = uses_[uses_.size() - period - 1].batches;
    Cycle cycle{.first = first_ + begin,
                .batches = {batches_.begin() + static_cast<std::ptrdiff_t>(begin), batches_.end()},
                .uses = period};
    for (RecordedBatch& recorded : cycle.batches) {
      recorded.batch.acknowledge = false;
      // Replay counts the rounds by itself.
      for (PlanPart& part : recorded.batch.parts) part.round = 0;
    }
    return cycle;
  }
  return std::nullopt;
}

void CycleFinder::restart(BatchNumber next) {
  first_ = next;
  batches_.clear();
  parts_ = 0;
  uses_.clear();
  last_use_.clear();
}

void CycleFinder::note_replay_ended(std::uint64_t length, std::uint64_t uses) {
  const std::uint64_t earned = std::max(demanded_, 2 * length);
  demanded_ = uses >= earned ? 0 : std::min<std::uint64_t>(2 * earned, most_parts);
}

std::size_t CycleFinder::passable(std::size_t place) const {
  const RecordedBatch& urgent = batches_[place];
  for (std::size_t passes = std::min(place, urgent.waiting); passes > 0; --passes)
    if (batches_[place - passes].priority < urgent.priority) return passes;
  return 0;
}

void CycleFinder::fingerprint(Fingerprint& to) const {
  to.add(first_).add(demanded_).add(uses_.size());
  for (std::size_t place = 0; place < batches_.size(); ++place) {
    add_to(to, batches_[place].batch);
    to.add(batches_[place].priority).add(passable(place));
  }
  for (const Use& use : uses_) to.add(use.sum).add(use.cut);
}

}  // namespace tutti::coordinator
