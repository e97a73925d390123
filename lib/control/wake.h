#pragma once
#include "base/fd.h"

namespace tutti::control {

/// An eventfd: wakes a thread that sleeps in epoll, also from another process that was given the
/// descriptor. Rings between two looks count as one.
base::Fd make_wake();
void wake(const base::Fd& event);
/// Forgets the rings so far.
void drain(const base::Fd& event);

}  // namespace tutti::control
