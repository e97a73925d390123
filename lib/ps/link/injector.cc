#include "ps/link/injector.h"

namespace tutti::ps {

Injector::Fate Injector::next() {
  if (!rates_.any()) return Fate::arrives;
  int at = std::uniform_int_distribution(0, 99)(random_);
  if (at < rates_.drop) {
    ++counts_.dropped;
    return Fate::is_lost;
  }
  at -= rates_.drop;
  if (at < rates_.delay) {
    ++counts_.delayed;
    return Fate::comes_late;
  }
  at -= rates_.delay;
  if (at >= rates_.duplicate) return Fate::arrives;
  ++counts_.duplicated;
  return Fate::comes_twice;
}

}  // namespace tutti::ps
