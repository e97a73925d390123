#include "ps/worker/outbox.h"

#include <algorithm>

namespace tutti::ps {

void Outbox::add(Entry entry) {
  const int asked = entry.call->priority;
  const auto [it, is_only_one] = unsent_.try_emplace(*entry.call->key);
  Unsent& unsent = it->second;
  unsent.priority = is_only_one ? asked : std::min(asked, unsent.priority);
  ++unsent.count;
  entries_.emplace(Turn{unsent.priority, ++turns_}, std::move(entry));
}

Outbox::Entry Outbox::take() {
  const auto first = entries_.begin();
  Entry entry = std::move(first->second);
  entries_.erase(first);
  const auto unsent = unsent_.find(*entry.call->key);
  if (--unsent->second.count == 0) unsent_.erase(unsent);
  return entry;
}

}  // namespace tutti::ps
