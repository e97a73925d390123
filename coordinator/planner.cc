#include "coordinator/planner.h"

#include <algorithm>
#include <utility>

namespace tutti::coordinator {
namespace {

/// Parts begin at multiples of this number of elements. So every part except the last is a whole
/// number of cache lines for any dtype.
constexpr std::uint64_t part_alignment = 64;

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

void Planner::add(const ReadyTensor& tensor) {
  const Signature& s = tensor.signature;
  const Class what{s.kind, s.dtype, s.op, s.root, s.device, s.wire, tensor.active_ranks};
  if (classes_.empty()) sequence_ = 0;
  if (tensor.start > 0) ++started_;
  classes_[what].insert({.priority = tensor.priority,
                         .sequence = sequence_++,
                         .id = tensor.id,
                         .round = tensor.round,
                         .next = tensor.start,
                         .count = s.shape.count(),
                         .element_bytes = size_of(s.dtype),
                         .started = tensor.start > 0});
}

const Sizes& Planner::sizes_of(const Class& what) const {
  return what.device == Device::Kind::cpu ? host_ : device_;
}

bool Planner::is_cut(const Entry& entry, const Sizes& sizes) {
  return entry.started || (sizes.part_bytes > 0 && entry.bytes() > sizes.part_bytes);
}

// The parts of one tensor are about equal. A tiny last part would also need a gate.
PlanPart Planner::cut(Queue& queue, const Sizes& sizes) {
  Entry entry = *queue.begin();
  queue.erase(queue.begin());
  std::uint64_t length = entry.count;
  if (sizes.part_bytes > 0) {
    const std::uint64_t pieces =
        std::max<std::uint64_t>(1, divide_up(entry.count * entry.element_bytes, sizes.part_bytes));
    length = divide_up(divide_up(entry.count, pieces), part_alignment) * part_alignment;
  }
  const PlanPart part{entry.id, entry.round, entry.next,
                      std::min(length, entry.count - entry.next)};
  entry.next += part.count;
  if (!std::exchange(entry.started, true)) ++started_;
  if (entry.next < entry.count) {
    queue.insert(entry);
  } else {
    --started_;
  }
  return part;
}

PlanBatch Planner::next(std::uint64_t& bytes) {
  const auto most_urgent = std::min_element(
      classes_.begin(), classes_.end(),
      [](const auto& a, const auto& b) { return *a.second.begin() < *b.second.begin(); });
  const Sizes& sizes = sizes_of(most_urgent->first);
  Queue& queue = most_urgent->second;
  PlanBatch batch;
  batch.active_ranks = most_urgent->first.active_ranks;
  const std::uint64_t element_bytes = queue.begin()->element_bytes;
  // All ranks' shards of one tensor move together. So do all shares of one all_to_all.
  const bool fuses = is_fusible(most_urgent->first.kind) && sizes.fusion_bytes > 0;
  bytes = 0;
  if (is_cut(*queue.begin(), sizes)) {
    batch.parts.push_back(cut(queue, sizes));
    bytes = batch.parts.back().count * element_bytes;
  } else {
    do {
      const Entry entry = *queue.begin();
      queue.erase(queue.begin());
      batch.parts.push_back({entry.id, entry.round, 0, entry.count});
      bytes += entry.bytes();
    } while (fuses && !queue.empty() && !is_cut(*queue.begin(), sizes) &&
             bytes + queue.begin()->bytes() <= sizes.fusion_bytes);
  }
  if (sizes.part_bytes > 0) bytes = divide_up(bytes * host_.part_bytes, sizes.part_bytes);
  if (queue.empty()) classes_.erase(most_urgent);
  return batch;
}

std::vector<Planner::Waiting> Planner::waiting() const {
  std::vector<Waiting> all;
  for (const auto& [what, queue] : classes_) {
    for (const Entry& entry : queue) all.push_back({entry.id, entry.next, entry.started});
  }
  return all;
}

void Planner::remove(KeyId id) {
  for (auto at = classes_.begin(); at != classes_.end();) {
    std::erase_if(at->second, [&](const Entry& entry) {
      if (entry.id == id && entry.started) --started_;
      return entry.id == id;
    });
    at = at->second.empty() ? classes_.erase(at) : std::next(at);
  }
}

void Planner::clear() {
  classes_.clear();
  started_ = 0;
}

void Planner::fingerprint(Fingerprint& to) const {
  to.add(classes_.size());
  for (const auto& [what, queue] : classes_) {
    to.add(what.active_ranks).add(queue.size());
    for (const Entry& entry : queue) {
      to.add(entry.id).add(entry.round).add(entry.next).add(entry.priority).add(entry.sequence);
    }
  }
}

}  // namespace tutti::coordinator
