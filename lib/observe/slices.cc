#include "observe/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "observe/history.h"

namespace tutti::observe {
namespace {

using Call = History::Call;
using ChunkStage = History::ChunkStage;
using Batch = History::Batch;
using Outcome = History::Outcome;
constexpr std::int64_t never = History::never;

/// Places a history on rows.
class Layout {
 public:
  Layout(const Timeline& timeline, const History& history)
      : timeline_(timeline), history_(history) {}
  Slices lay_out();

 private:
  void show_call(const Call& call);
  void show_batch(const Batch& batch);
  void show_gate(const Batch& batch);
  void show_on_key(std::int64_t key, const Batch& batch);
  void show_stages(std::int64_t key, const Batch& batch);
  std::string title(const Batch& batch) const;
  std::uint32_t track(const RowId& first, std::int64_t begin, std::int64_t end);

  const Timeline& timeline_;
  const History& history_;
  Slices slices_;
  std::map<RowId, std::vector<std::int64_t>> lane_ends_;  ///< last end on each track
};

Slices Layout::lay_out() {
  for (const Call& call : history_.calls) show_call(call);
  for (const Batch& batch : history_.batches) show_batch(batch);
  for (auto& [row, slices] : slices_) {
    // An enclosing slice comes before the slices that it encloses.
    std::stable_sort(slices.begin(), slices.end(), [](const TraceSlice& a, const TraceSlice& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
  }
  return std::move(slices_);
}

/// Shows the whole call, and its wait: "agree" until the plan has come, then "turn". In replay
/// there is no plan, and all of the wait is "turn".
void Layout::show_call(const Call& call) {
  auto& row = slices_[{.key = call.key, .kind = RowId::Kind::call}];
  const bool unfinished = call.outcome == Outcome::unfinished;
  row.push_back({.begin = call.submitted,
                 .end = call.end,
                 .name = fmt::format("{}{}", name(call.kind),
                                     call.outcome == Outcome::failed ? " (failed)" : ""),
                 .category = "call",
                 .unfinished = unfinished});
  const auto wait = [&](std::int64_t from, std::int64_t to, const char* name) {
    row.push_back({.begin = from,
                   .end = to == never ? call.end : to,
                   .name = name,
                   .category = "wait",
                   .unfinished = to == never});
  };
  if (call.entered == never) {
    if (unfinished) wait(call.submitted, never, "agree");
    return;
  }
  const std::int64_t turn = std::max(call.submitted, call.planned);
  if (turn > call.submitted) wait(call.submitted, turn, "agree");
  wait(turn, call.entered, "turn");
}

void Layout::show_batch(const Batch& batch) {
  show_gate(batch);
  if (batch.outcome == Outcome::withdrawn) return;
  if (batch.started != never) {
    RowId row{.kind = RowId::Kind::executor};
    row.track = track(row, batch.started, batch.end);
    slices_[row].push_back({.begin = batch.started,
                            .end = batch.end,
                            .name = title(batch),
                            .category = "batch",
                            .gate = batch.gate,
                            .kib = batch.kib,
                            .unfinished = batch.outcome == Outcome::unfinished});
  }
  for (const std::size_t index : batch.calls) {
    const Call& call = history_.calls[index];
    // A call that failed earlier is not shown as moving.
    if (call.end >= batch.end) show_on_key(call.key, batch);
  }
}

void Layout::show_gate(const Batch& batch) {
  const bool withdrawn = batch.outcome == Outcome::withdrawn;
  if (batch.closed == never && !withdrawn) return;
  slices_[{.kind = RowId::Kind::gates}].push_back(
      {.begin = batch.entered,
       .end = withdrawn ? batch.end : batch.closed,
       .name = fmt::format("{}{}", title(batch), withdrawn ? " (withdrawn)" : ""),
       .category = withdrawn ? "withdrawn" : gates_category,
       .gate = batch.gate});
}

void Layout::show_on_key(std::int64_t key, const Batch& batch) {
  RowId row{.key = key, .kind = RowId::Kind::call};
  row.track = track(row, batch.entered, batch.end);
  const auto show = [&](std::int64_t from, std::int64_t to, const char* name,
                        const char* category) {
    const std::int64_t end = to == never ? batch.end : to;
    slices_[row].push_back({.begin = from,
                            .end = end,
                            .name = name,
                            .category = category,
                            .gate = batch.gate,
                            .kib = batch.kib,
                            .unfinished = to == never && batch.outcome == Outcome::unfinished});
  };
  show(batch.entered, batch.closed, "gate", "gate");
  if (batch.closed != never && batch.closed != batch.started) {
    show(batch.closed, batch.started, "held", "wait");
  }
  if (batch.started != never) show(batch.started, never, "move", "move");
  show_stages(key, batch);
}

/// Joins each stage, from the beginning of its first chunk to the end of its last.
std::vector<ChunkStage> whole_stages(const std::vector<ChunkStage>& chunk_stages) {
  std::array<std::optional<ChunkStage>, stages> whole;
  for (const ChunkStage& chunk_stage : chunk_stages) {
    auto& stage = whole[static_cast<std::size_t>(chunk_stage.stage)];
    if (!stage) stage = {chunk_stage.stage, -1, chunk_stage.begin, chunk_stage.end};
    stage->begin = std::min(stage->begin, chunk_stage.begin);
    stage->end = std::max(stage->end, chunk_stage.end);
  }
  std::vector<ChunkStage> result;
  for (const auto& stage : whole) {
    if (stage) result.push_back(*stage);
  }
  return result;
}

/// Shows a batch of one tensor chunk by chunk. In a batch of several tensors a chunk may hold parts
/// of many, so each stage is shown as a whole.
void Layout::show_stages(std::int64_t key, const Batch& batch) {
  for (const ChunkStage& chunk_stage :
       batch.calls.size() == 1 ? batch.chunk_stages : whole_stages(batch.chunk_stages)) {
    RowId row{.key = key, .kind = RowId::Kind::stage, .stage = chunk_stage.stage};
    row.track = track(row, chunk_stage.begin, chunk_stage.end);
    slices_[row].push_back({.begin = chunk_stage.begin,
                            .end = chunk_stage.end,
                            .name = std::string(name(chunk_stage.stage)),
                            .category = "stage",
                            .gate = batch.gate,
                            .chunk = chunk_stage.chunk});
  }
}

std::uint32_t Layout::track(const RowId& first, std::int64_t begin, std::int64_t end) {
  auto& ends = lane_ends_[first];
  const auto free = std::find_if(ends.begin(), ends.end(), [&](auto e) { return e <= begin; });
  const auto at = static_cast<std::uint32_t>(free - ends.begin());
  if (free == ends.end()) ends.push_back(0);
  ends[at] = end;
  return at;
}

/// Returns text such as "batch 1.12: 'w', 'b' and 3 more".
std::string Layout::title(const Batch& batch) const {
  constexpr std::size_t most = 2;
  std::string text = fmt::format("batch {}.{}", batch.gate >> Timeline::gate_bits,
                                 batch.gate & ((std::uint64_t{1} << Timeline::gate_bits) - 1));
  for (std::size_t i = 0; i < std::min(most, batch.calls.size()); ++i) {
    text += i == 0 ? ": " : ", ";
    text += timeline_.rows()[history_.calls[batch.calls[i]].key];
  }
  if (batch.calls.size() > most) text += fmt::format(" and {} more", batch.calls.size() - most);
  return text;
}

}  // namespace

std::string RowId::name(const Timeline& timeline) const {
  if (kind == Kind::gates) return "gates";
  std::string text =
      kind == Kind::executor ? "tutti-exec" : timeline.rows()[static_cast<std::size_t>(key)];
  if (kind == Kind::stage) text += fmt::format(" {}", observe::name(stage));
  if (track > 0) text += fmt::format(" ({})", track + 1);
  return text;
}

Slices slices_of(const Timeline& timeline) {
  const History history = history_of(timeline);
  return Layout(timeline, history).lay_out();
}

}  // namespace tutti::observe
