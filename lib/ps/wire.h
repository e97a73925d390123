#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "ps/messages.h"

namespace tutti::ps {

std::vector<std::byte> encode(const ToScheduler& message);
std::vector<std::byte> encode(const FromScheduler& message);
std::vector<std::byte> encode(const ToServer& message);
std::vector<std::byte> encode(const Answer& message);

/// Throw `internal` for bytes that `encode` does not make. They read nothing outside of `bytes`,
/// which must be aligned to 8 bytes, and allocate in proportion to it. Elements stay where they
/// are: a decoded message refers to them in `bytes`.
ToScheduler decode_to_scheduler(std::span<const std::byte> bytes);
FromScheduler decode_from_scheduler(std::span<const std::byte> bytes);
ToServer decode_to_server(std::span<const std::byte> bytes);
Answer decode_answer(std::span<const std::byte> bytes);

}  // namespace tutti::ps
