#include <algorithm>
#include <cstring>
#include <type_traits>

#include "guard.h"
#include "handles.h"

namespace {

// Both structures have the same layout, so that one copy is enough. New fields are added at the end
// of both.
static_assert(sizeof(tutti_counters) == sizeof(tutti::Counters));
static_assert(std::is_trivially_copyable_v<tutti::Counters>);

}  // namespace

int tutti_store_counters(const tutti_store* store, tutti_counters* counters, size_t size) {
  return tutti::c::guarded([&, function = "tutti_store_counters"] {
    tutti_counters& into = tutti::c::at(counters, function, "counters");
    const tutti::Counters now = tutti::c::at(store, function, "store").store->counters();
    std::memset(&into, 0, size);
    std::memcpy(&into, &now, std::min(size, sizeof now));
  });
}

int tutti_shard(size_t count, int rank, int size, size_t* begin, size_t* end) {
  return tutti::c::guarded([&, function = "tutti_shard"] {
    size_t& first = tutti::c::at(begin, function, "begin");
    size_t& last = tutti::c::at(end, function, "end");
    const tutti::Shard share = tutti::shard(count, rank, size);
    first = share.begin;
    last = share.end;
  });
}
