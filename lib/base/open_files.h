#pragma once
#include <optional>

#include "base/fd.h"

namespace tutti::base {

/// The number of files and sockets that this process may have open. It is empty if there is no
/// limit.
std::optional<std::size_t> most_open_files();
/// Raises that limit to its maximum. For a process that is tutti's own: a program may use select(),
/// which knows no descriptor above 1023.
void raise_most_open_files();
/// Whether fewer than `kept` descriptors were left when this one was made.
bool is_among_last(const Fd& newest, std::size_t kept);

}  // namespace tutti::base
