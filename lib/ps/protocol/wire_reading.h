#pragma once
// The parts that the decoding files share. Only wire_decode*.cc include this file.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/wire_reading.h"
#include "net/bytes.h"
#include "ps/protocol/messages.h"
#include "ps/protocol/wire_head.h"
#include "wire_generated.h"

namespace tutti::ps {

using ElementBytes = std::span<const std::byte>;
template <typename T>
using Offset = flatbuffers::Offset<T>;

using base::checked;
using base::malformed;
using base::needed;

/// A short text, such as a name, a version or an address. A message may have many of them.
inline std::string unpack(const flatbuffers::String& text) {
  if (text.size() > Key::max_bytes) malformed("a name that is too long");
  return text.str();
}

inline Key unpack(const wire::Key& key) {
  if (key.text() == nullptr) return key.integer();
  return unpack(*key.text());
}

inline Failure unpack(const wire::Failure& failure) {
  if (failure.code() == 0) malformed("a failure without a code");
  const auto& ranks = needed(failure.ranks());
  return {checked(failure.code(), ErrorCode::internal),
          failure.text()->str(),
          {ranks.begin(), ranks.end()}};
}

inline std::optional<Failure> unpack(const wire::Failure* failure) {
  if (failure == nullptr) return std::nullopt;
  return unpack(*failure);
}

inline PieceName unpack(const wire::Piece& piece) {
  if (piece.index() >= piece.pieces()) malformed("a piece beyond the last");
  if (piece.pieces() > most_pieces) malformed("a value in too many pieces");
  return {unpack(*piece.key()), piece.index(), piece.pieces()};
}

struct Split {
  std::span<const std::byte> table;
  ElementBytes elements;
};

/// `apart` holds the elements, if they have come separately.
inline Split split(std::span<const std::byte> bytes, ElementBytes apart = {}) {
  if (bytes.size() < head_bytes) malformed("shorter than its head");
  const auto zeros = bytes.subspan(4, head_bytes - 4);
  const auto body = bytes.subspan(head_bytes);
  const std::size_t length = net::load_u32(bytes.data());
  if (length > body.size()) malformed("shorter than it says");
  if (std::ranges::any_of(zeros, [](std::byte b) { return b != std::byte{0}; })) {
    malformed("a head that is none");
  }
  if (!apart.empty() && length < body.size()) malformed("elements in two places");
  return {body.first(length), apart.empty() ? body.subspan(length) : apart};
}

/// The verified table of this type. A table and the offset that points at it take 8 bytes. If there
/// are more tables than that allows, several offsets point at the same table.
template <typename Table>
const Table& verified(std::span<const std::byte> table) {
  const auto* const data = net::as_unsigned(table.data());
  flatbuffers::Verifier verifier(data, table.size(), 16,
                                 static_cast<flatbuffers::uoffset_t>(table.size() / 8));
  if (table.empty() || !verifier.VerifyBuffer<Table>()) malformed("it does not verify");
  return *flatbuffers::GetRoot<Table>(data);
}

/// Does the same as `verified`, for a message that carries no elements.
template <typename Table>
const Table& lone(std::span<const std::byte> bytes) {
  const Split parts = split(bytes);
  if (!parts.elements.empty()) malformed("elements that belong to nothing");
  return verified<Table>(parts.table);
}

}  // namespace tutti::ps
