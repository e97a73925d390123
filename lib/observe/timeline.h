#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "tutti/collective_kind.h"
#include "tutti/key.h"

namespace tutti::observe {

/// The stages of the data pipeline. Chunks of one batch may be in different stages at once.
enum class Stage : std::uint8_t { copy_in, sum, between_nodes, copy_out };
constexpr std::size_t stages = 4;
std::string_view name(Stage stage);

/// Records what happens to one rank's calls and batches, for a trace that is written afterwards.
///
/// The constructor allocates all memory. When it is full, later events are counted and dropped. A
/// timeline that is off records nothing and costs one branch. Not thread-safe: it belongs to the
/// thread that moves the executor.
class Timeline {
 public:
  static constexpr std::size_t usual_capacity = std::size_t{1} << 20;

  enum class Mark : std::uint8_t {
    submitted,  ///< number: call; detail: row; kind
    failed,     ///< number: call
    finished,   ///< number: call
    planned,    ///< number: the first gate; detail: how many
    entered,    ///< number: gate; detail: KiB
    part,       ///< number: call; belongs to the batch entered last
    closed,     ///< number: gate
    withdrawn,  ///< number: gate
    started,    ///< number: gate
    done,       ///< number: gate
    begins,     ///< a stage; number: gate; detail: chunk
    ends,       ///< the same
  };
  struct Event {
    std::int64_t when = 0;  ///< ns on the steady clock
    std::uint64_t number = 0;
    std::uint32_t detail = 0;
    Mark mark = Mark::submitted;
    Stage stage = Stage::copy_in;
    CollectiveKind kind = CollectiveKind::allreduce;
  };
  /// A batch's gate as one number: the epoch, and the number of the batch in it.
  static constexpr int gate_bits = 40;
  static std::uint64_t gate(std::uint32_t epoch, std::uint64_t number) {
    return (std::uint64_t{epoch} << gate_bits) | number;
  }

  /// `capacity` is in events. 0 means off.
  explicit Timeline(std::size_t capacity) : events_(capacity), on_(capacity > 0) {}

  bool is_on() const { return on_; }
  /// The time for `record_submitted`. If the timeline is off, no clock is read. Any thread may call
  /// it.
  base::Clock::time_point now() const {
    return on_ ? base::Clock::now() : base::Clock::time_point();
  }

  /// `row` is a small number, the same for all calls of a key.
  void record_submitted(base::Clock::time_point when, std::uint64_t call, std::uint32_t row,
                        const Key& key, CollectiveKind kind) {
    if (!on_) return;
    if (row >= rows_.size() || rows_[row].empty()) name(row, key, kind);
    add({.when = ns(when), .number = call, .detail = row, .kind = kind});
  }
  /// A call that ends well ends with its last batch, so it takes the time of the last event.
  void record_finished(std::uint64_t call, bool well) {
    if (!on_) return;
    if (well) {
      add({.when = latest_, .number = call, .mark = Mark::finished});
    } else {
      add({.when = ns(base::Clock::now()), .number = call, .mark = Mark::failed});
    }
  }
  void record_planned(std::uint32_t epoch, std::uint64_t first, std::size_t count) {
    if (!on_) return;
    mark(base::Clock::now(), Mark::planned, gate(epoch, first), static_cast<std::uint32_t>(count));
  }
  void record_entered(base::Clock::time_point when, std::uint32_t epoch, std::uint64_t number,
                      std::size_t bytes) {
    if (!on_) return;
    mark(when, Mark::entered, gate(epoch, number), static_cast<std::uint32_t>(bytes >> 10));
  }
  void record_part(std::uint64_t call) {
    if (on_) add({.when = latest_, .number = call, .mark = Mark::part});
  }
  void record_closed(base::Clock::time_point when, std::uint32_t epoch, std::uint64_t number) {
    if (on_) mark(when, Mark::closed, gate(epoch, number));
  }
  void record_withdrawn(base::Clock::time_point when, std::uint32_t epoch, std::uint64_t number) {
    if (on_) mark(when, Mark::withdrawn, gate(epoch, number));
  }
  /// `at_once` says that this happens in the same pass as the last event, so it takes that event's
  /// time.
  void record_started(std::uint32_t epoch, std::uint64_t number, bool at_once) {
    if (!on_) return;
    const std::int64_t when = at_once ? latest_ : ns(base::Clock::now());
    add({.when = when, .number = gate(epoch, number), .mark = Mark::started});
  }
  void record_done(base::Clock::time_point when, std::uint32_t epoch, std::uint64_t number) {
    if (on_) mark(when, Mark::done, gate(epoch, number));
  }
  /// `gate` is the number of the batch's gate, from `gate()`.
  void record_stage_begin(std::uint64_t gate, Stage stage, std::uint64_t chunk) {
    record_stage(Mark::begins, gate, stage, chunk);
  }
  void record_stage_end(std::uint64_t gate, Stage stage, std::uint64_t chunk) {
    record_stage(Mark::ends, gate, stage, chunk);
  }

  /// The events in the order of recording. That is the order of time, except for `submitted`.
  std::span<const Event> events() const { return std::span(events_).first(used_); }
  /// The number of events that were left out because the memory was full.
  std::uint64_t dropped() const { return dropped_; }
  /// The name of each row: its key as messages show it, or "barrier". A row without calls has none.
  const std::vector<std::string>& rows() const { return rows_; }

 private:
  static std::int64_t ns(base::Clock::time_point when) {
    return std::chrono::nanoseconds(when.time_since_epoch()).count();
  }
  void add(const Event& event) {
    if (used_ == events_.size()) {
      ++dropped_;
    } else {
      events_[used_++] = event;
    }
  }
  void mark(base::Clock::time_point when, Mark what, std::uint64_t number,
            std::uint32_t detail = 0) {
    latest_ = ns(when);
    add({.when = latest_, .number = number, .detail = detail, .mark = what});
  }
  void record_stage(Mark what, std::uint64_t gate, Stage stage, std::uint64_t chunk) {
    if (!on_) return;
    latest_ = ns(base::Clock::now());
    add({.when = latest_,
         .number = gate,
         .detail = static_cast<std::uint32_t>(chunk),
         .mark = what,
         .stage = stage});
  }
  void name(std::uint32_t row, const Key& key, CollectiveKind kind);

  std::vector<Event> events_;
  std::size_t used_ = 0;
  std::uint64_t dropped_ = 0;
  const bool on_;
  std::int64_t latest_ = 0;  ///< the last time read for a gate, batch or stage
  std::vector<std::string> rows_;
};

/// Records the stages of one batch at a time. It does nothing if it has no timeline.
class StageRecorder {
 public:
  StageRecorder() = default;
  /// The timeline outlives the recorder.
  explicit StageRecorder(Timeline& timeline) : timeline_(&timeline) {}

  /// Stages that are recorded from now on belong to this batch.
  void set_batch(std::uint32_t epoch, std::uint64_t number) {
    gate_ = Timeline::gate(epoch, number);
  }
  void begin(Stage stage, std::uint64_t chunk) {
    if (timeline_ != nullptr) timeline_->record_stage_begin(gate_, stage, chunk);
  }
  void end(Stage stage, std::uint64_t chunk) {
    if (timeline_ != nullptr) timeline_->record_stage_end(gate_, stage, chunk);
  }

 private:
  Timeline* timeline_ = nullptr;
  std::uint64_t gate_ = 0;
};

}  // namespace tutti::observe
