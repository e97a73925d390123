#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "observe/timeline.h"

namespace tutti::observe {

/// The calls and batches of a recording, each with its times, as `history_of` makes them of the
/// events. Times are in ns on the rank's steady clock.
struct History {
  static constexpr std::int64_t never = -1;

  /// The end of a call or batch. It is `unfinished` if the recording ended first.
  enum class Outcome : std::uint8_t { well, failed, withdrawn, unfinished };

  struct Call {
    std::uint32_t key = 0;  ///< index in Timeline::rows
    CollectiveKind kind = CollectiveKind::allreduce;
    std::int64_t submitted = never;
    /// The time at which its first batch was planned; `never` in replay.
    std::int64_t planned = never;
    std::int64_t entered = never;  ///< the time at which it entered its first batch's gate
    std::int64_t end = never;
    Outcome outcome = Outcome::unfinished;
  };

  /// The time that one chunk spent in one stage.
  struct ChunkStage {
    Stage stage = Stage::copy_in;
    std::int64_t chunk = 0;
    std::int64_t begin = never;
    std::int64_t end = never;
  };

  struct Batch {
    std::uint64_t gate = 0;  ///< from Timeline::gate
    std::int64_t kib = 0;
    std::int64_t entered = never;
    std::int64_t closed = never;
    std::int64_t started = never;
    std::int64_t end = never;
    Outcome outcome = Outcome::unfinished;
    std::vector<std::size_t> calls;  ///< indices in History::calls
    std::vector<ChunkStage> chunk_stages;
  };

  std::vector<Call> calls;     ///< in the order of submission
  std::vector<Batch> batches;  ///< in the order of their ends
};

History history_of(const Timeline& timeline);

}  // namespace tutti::observe
