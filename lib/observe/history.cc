#include "observe/history.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tutti::observe {
namespace {

using Mark = Timeline::Mark;
using Event = Timeline::Event;
using Call = History::Call;
using ChunkStage = History::ChunkStage;
using Batch = History::Batch;
using Outcome = History::Outcome;

/// Reads the events once. A batch is open until it ends; then it moves into the history.
class HistoryReader {
 public:
  History read(const Timeline& timeline);

 private:
  void take(const Event& event);
  void submit(const Event& event);
  void finish(const Event& event, Outcome outcome);
  void plan(const Event& event);
  void enter(const Event& event);
  void add_part(const Event& event);
  void start(const Event& event);
  void begin_stage(const Event& event);
  void end_stage(const Event& event);
  void end_batch(std::uint64_t gate, std::int64_t when, Outcome outcome);
  void end_open();
  /// Null once the batch has ended.
  Batch* open(std::uint64_t gate) {
    const auto found = batches_.find(gate);
    return found == batches_.end() ? nullptr : &found->second;
  }

  History history_;
  std::unordered_map<std::uint64_t, std::size_t> calls_;     ///< open ones, by number in the events
  std::map<std::uint64_t, Batch> batches_;                   ///< open ones, by gate
  std::unordered_map<std::uint64_t, std::int64_t> planned_;  ///< by gate
  std::uint64_t entered_last_ = 0;
  std::int64_t last_ = 0;
};

History HistoryReader::read(const Timeline& timeline) {
  for (const Event& event : timeline.events()) {
    last_ = std::max(last_, event.when);
    take(event);
  }
  end_open();
  return std::move(history_);
}

void HistoryReader::take(const Event& event) {
  switch (event.mark) {
    case Mark::submitted:
      return submit(event);
    case Mark::finished:
      return finish(event, Outcome::well);
    case Mark::failed:
      return finish(event, Outcome::failed);
    case Mark::planned:
      return plan(event);
    case Mark::entered:
      return enter(event);
    case Mark::part:
      return add_part(event);
    case Mark::closed:
      batches_[event.number].closed = event.when;
      return;
    case Mark::withdrawn:
      return end_batch(event.number, event.when, Outcome::withdrawn);
    case Mark::started:
      return start(event);
    case Mark::done:
      return end_batch(event.number, event.when, Outcome::well);
    case Mark::begins:
      return begin_stage(event);
    case Mark::ends:
      return end_stage(event);
  }
}

void HistoryReader::submit(const Event& event) {
  calls_[event.number] = history_.calls.size();
  history_.calls.push_back({.key = event.detail, .kind = event.kind, .submitted = event.when});
}

void HistoryReader::finish(const Event& event, Outcome outcome) {
  const auto found = calls_.find(event.number);
  if (found == calls_.end()) return;
  Call& call = history_.calls[found->second];
  call.end = event.when;
  call.outcome = outcome;
  calls_.erase(found);
}

void HistoryReader::plan(const Event& event) {
  for (std::uint64_t i = 0; i < event.detail; ++i) planned_[event.number + i] = event.when;
}

void HistoryReader::enter(const Event& event) {
  entered_last_ = event.number;
  Batch& batch = batches_[event.number];
  batch = Batch();
  batch.gate = event.number;
  batch.kib = event.detail;
  batch.entered = event.when;
}

void HistoryReader::add_part(const Event& event) {
  const auto found = calls_.find(event.number);
  if (found != calls_.end()) batches_[entered_last_].calls.push_back(found->second);
}

void HistoryReader::start(const Event& event) {
  batches_[event.number].started = event.when;
}

void HistoryReader::begin_stage(const Event& event) {
  if (Batch* const batch = open(event.number)) {
    batch->chunk_stages.push_back({event.stage, event.detail, event.when, History::never});
  }
}

void HistoryReader::end_stage(const Event& event) {
  Batch* const batch = open(event.number);
  if (batch == nullptr) return;
  const auto found = std::find_if(
      batch->chunk_stages.rbegin(), batch->chunk_stages.rend(), [&](const ChunkStage& chunk_stage) {
        return chunk_stage.stage == event.stage && chunk_stage.chunk == event.detail;
      });
  if (found != batch->chunk_stages.rend()) found->end = event.when;
}

void HistoryReader::end_batch(std::uint64_t gate, std::int64_t when, Outcome outcome) {
  const auto found = batches_.find(gate);
  if (found == batches_.end()) return;
  Batch& batch = found->second;
  batch.end = when;
  batch.outcome = outcome;
  for (ChunkStage& chunk_stage : batch.chunk_stages) {
    if (chunk_stage.end == History::never) chunk_stage.end = when;
  }
  const auto planned = planned_.find(gate);
  for (const std::size_t index : batch.calls) {
    Call& call = history_.calls[index];
    // A withdrawn gate does not count as the first that a call entered.
    if (outcome == Outcome::withdrawn || call.entered != History::never) continue;
    call.entered = batch.entered;
    if (planned != planned_.end()) call.planned = planned->second;
  }
  if (planned != planned_.end()) planned_.erase(planned);
  history_.batches.push_back(std::move(batch));
  batches_.erase(found);
}

void HistoryReader::end_open() {
  while (!batches_.empty()) end_batch(batches_.begin()->first, last_, Outcome::unfinished);
  for (const auto& [id, index] : calls_) history_.calls[index].end = last_;
}

}  // namespace

History history_of(const Timeline& timeline) {
  return HistoryReader().read(timeline);
}

}  // namespace tutti::observe
