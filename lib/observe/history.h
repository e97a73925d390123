#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "observe/timeline.h"

namespace tutti::observe {

/// What a recording's events amount to: each call and each batch with the times of its way. Times
/// are ns on the rank's steady clock.
struct History {
  static constexpr std::int64_t never = -1;

  /// How a call or a batch ended; what is open at the end of the recording is unfinished.
  enum class Outcome : std::uint8_t { well, failed, withdrawn, unfinished };

  struct Call {
    std::uint32_t key = 0;  ///< index in Timeline::rows
    CollectiveKind kind = CollectiveKind::allreduce;
    std::int64_t submitted = never;
    std::int64_t planned = never;  ///< its first batch; never: in replay
    std::int64_t entered = never;  ///< the gate of its first batch
    std::int64_t end = never;
    Outcome outcome = Outcome::unfinished;
  };

  /// A chunk in a stage.
  struct ChunkStage {
    Stage stage = Stage::copy_in;
    std::int64_t chunk = 0;
    std::int64_t begin = never;
    std::int64_t end = never;
  };

  struct Batch {
    std::uint64_t gate = 0;  ///< as Timeline::gate says it
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
