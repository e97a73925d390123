#include "base/keep.h"

#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tutti::base {

void keep_for_good(std::shared_ptr<const void> owned) {
  static Mutex mutex{5};
  static auto& all = *new std::vector<std::shared_ptr<const void>>;
  const Lock lock(mutex);
  all.push_back(std::move(owned));
}

}  // namespace tutti::base
