#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "net/bytes.h"

/// The parts of a journal: its beginning, records, and marks between them.
namespace tutti::ps {

/// A random id. A disk may still have bytes of another file, which must not pass for a part of this
/// one.
using JournalId = std::array<std::byte, 16>;

/// A place behind some records of a journal.
struct JournalPlace {
  JournalId id{};
  std::uint64_t records = 0;

  bool operator==(const JournalPlace&) const = default;
};

struct JournalBeginning {
  static constexpr std::size_t bytes = 17 + 16 + 8 + 16 + 8 + 16;

  JournalId id{};
  std::uint64_t job = 0;
  /// The place where the journal before this one ended. All zeros: only a checkpoint is before it.
  JournalPlace follows{};

  net::Bytes encoded() const;
};

/// Decodes the beginning of a journal. Returns null, or says why these are not the bytes of a
/// beginning.
const char* decode(net::ConstBytes bytes, JournalBeginning& beginning);

using JournalHash = std::array<std::byte, 16>;

/// The bytes before a record: its length and a hash.
inline constexpr std::size_t record_head_bytes = 4 + std::tuple_size_v<JournalHash>;

/// The hash of the record with this number in this journal. It shows when a record is left out or
/// moved.
JournalHash hash_of_record(const JournalId& id, std::uint64_t number, std::uint32_t length,
                           net::ConstBytes head, net::ConstBytes body);

/// A mark has this number in place of a length. The journal's id and the number of records on disk
/// follow the head.
inline constexpr std::uint32_t synced_mark = 0xffffffff;
inline constexpr std::size_t mark_bytes = record_head_bytes + std::tuple_size_v<JournalId> + 8;

/// A mark which says that all records before this place are on the disk.
net::Bytes mark_of(const JournalPlace& place);

}  // namespace tutti::ps
