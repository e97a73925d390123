#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "observe/timeline.h"

namespace tutti::observe {

/// A span of time on a row of the trace.
struct TraceSlice {
  std::int64_t begin = 0;  ///< ns on the rank's steady clock
  std::int64_t end = 0;
  std::string name;
  std::string_view category;     ///< call, wait, gate, move, stage, batch, withdrawn or gates
  std::uint64_t gate = no_gate;  ///< the batch's gate, from Timeline::gate
  std::int64_t chunk = -1;       ///< the batch's chunk; -1: all chunks
  std::int64_t kib = -1;         ///< the batch's size; -1: not known
  bool unfinished = false;       ///< the recording ended before it did

  static constexpr std::uint64_t no_gate = ~std::uint64_t{0};
};

/// The category of the slices in the row of gates, except the withdrawn ones.
constexpr const char* gates_category = "gates";

/// Identifies a row. Rows sort in the order in which they are shown: the executor's row, the gates'
/// row, then the rows of each key.
struct RowId {
  enum class Kind : std::uint8_t { executor, gates, call, stage };

  std::int64_t key = -1;  ///< index in Timeline::rows; -1: none
  Kind kind = Kind::executor;
  Stage stage = Stage::copy_in;
  /// Slices that overlap without one enclosing the other go to different tracks.
  std::uint32_t track = 0;

  /// "tutti-exec", "gates", "'w'", "'w' sum", "'w' between nodes 2".
  std::string name(const Timeline& timeline) const;
  friend bool operator<(const RowId& a, const RowId& b) {
    return std::tie(a.key, a.kind, a.stage, a.track) < std::tie(b.key, b.kind, b.stage, b.track);
  }
};

using Slices = std::map<RowId, std::vector<TraceSlice>>;

/// Makes slices of the recorded events. On a row they follow one another or enclose one another. On
/// a call's row they come in the order agree, turn, gate, held, move.
Slices slices_of(const Timeline& timeline);

}  // namespace tutti::observe
