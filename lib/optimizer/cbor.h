#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

namespace tutti::optimizer {

/// Reads a value in which arrays and objects are nested no deeper than this, and in which every
/// part begins with its length. Throws std::invalid_argument for another value, and json::exception
/// for bytes that are no CBOR.
nlohmann::json read_cbor(std::span<const std::uint8_t> bytes, std::size_t deepest);

}  // namespace tutti::optimizer
