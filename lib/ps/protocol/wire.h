#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "ps/protocol/messages.h"

namespace tutti::ps {

std::vector<std::byte> encode(const ToScheduler& message);
std::vector<std::byte> encode(const FromScheduler& message);
std::vector<std::byte> encode(const ToServer& message);
std::vector<std::byte> encode(const Answer& message);
/// All but the elements, which follow.
std::vector<std::byte> encode_head(const ToServer& message);
std::vector<std::byte> encode_head(const Answer& message);
/// Those of the message, where they are.
std::span<const std::byte> elements_of(const ToServer& message);

/// Throw `internal` for bytes that `encode` does not make. They read nothing outside of `bytes`,
/// which must be aligned to 8 bytes, and allocate in proportion to it. Elements stay where they
/// are: a decoded message refers to them in `bytes`, or in `apart` if they have come apart.
ToScheduler decode_to_scheduler(std::span<const std::byte> bytes);
FromScheduler decode_from_scheduler(std::span<const std::byte> bytes);
ToServer decode_to_server(std::span<const std::byte> bytes, std::span<const std::byte> apart = {});
Answer decode_answer(std::span<const std::byte> bytes, std::span<const std::byte> apart = {});

}  // namespace tutti::ps
