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
/// Encodes everything except the elements, which follow.
std::vector<std::byte> encode_head(const ToServer& message);
std::vector<std::byte> encode_head(const Answer& message);
/// The elements of the message, where they are.
std::span<const std::byte> elements_of(const ToServer& message);

/// Throw `internal` if `encode` does not make such bytes. They read nothing outside of `bytes`,
/// which must be aligned to 8 bytes, and allocate in proportion to it. Elements stay where they
/// are: a decoded message refers to them in `bytes`. If the elements have come separately, the
/// message refers to `apart`.
ToScheduler decode_to_scheduler(std::span<const std::byte> bytes);
FromScheduler decode_from_scheduler(std::span<const std::byte> bytes);
ToServer decode_to_server(std::span<const std::byte> bytes, std::span<const std::byte> apart = {});
Answer decode_answer(std::span<const std::byte> bytes, std::span<const std::byte> apart = {});

}  // namespace tutti::ps
