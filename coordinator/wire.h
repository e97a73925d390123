#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "coordinator/messages.h"

namespace tutti::coordinator {

/// No message is larger. The control plane has the same limit, and refuses longer frames.
constexpr std::size_t max_message_bytes = std::size_t{256} << 20;

std::vector<std::byte> encode(const ToCoordinator& message);
std::vector<std::byte> encode(const ToRank& message);

/// Throw `internal` if `encode` does not produce such bytes. They read nothing outside of `bytes`,
/// and allocate in proportion to it.
ToCoordinator decode_to_coordinator(std::span<const std::byte> bytes);
ToRank decode_to_rank(std::span<const std::byte> bytes);

}  // namespace tutti::coordinator
