#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

namespace tutti::optimizer {

/// Reads a value of which nothing is nested deeper than this many arrays and objects, and of which
/// every part begins with its length. Throws std::invalid_argument for another one, and
/// json::exception for bytes that are no CBOR.
nlohmann::json read_cbor(std::span<const std::uint8_t> bytes, std::size_t deepest);

}  // namespace tutti::optimizer
