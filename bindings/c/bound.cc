#include <memory>

#include "guard.h"
#include "handles.h"

using tutti::c::at;
using tutti::c::guarded;

int tutti_bound_start(tutti_bound* bound, tutti_pending** pending) {
  return guarded([&] {
    // This is made first, because nothing may fail once the call is submitted.
    auto outcome = std::make_unique<tutti_pending>();
    outcome->pending = at(bound, "tutti_bound_start", "bound").bound.start();
    if (pending != nullptr) *pending = outcome.release();
  });
}

int tutti_bound_wait(const tutti_bound* bound) {
  return guarded([&] { at(bound, "tutti_bound_wait", "bound").bound.wait(); });
}

int tutti_bound_run(tutti_bound* bound) {
  return guarded([&] { at(bound, "tutti_bound_run", "bound").bound.run(); });
}

void tutti_bound_destroy(tutti_bound* bound) {
  delete bound;
}
