#include "observe/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace tutti::observe {
namespace {

using Mark = Timeline::Mark;
using Event = Timeline::Event;

constexpr std::int64_t never = -1;

/// A call from its submission to its end.
struct Call {
  std::int64_t key = 0;
  bool broadcast = false;
  std::int64_t submitted = never;
  bool entered = false;
};

struct Piece {
  Stage stage;
  std::int64_t chunk;
  std::int64_t begin;
  std::int64_t end;
};

/// A batch from its gate to its end.
struct Batch {
  std::int64_t kib = 0;
  std::int64_t entered = never;
  std::int64_t closed = never;
  std::int64_t started = never;
  std::vector<std::uint64_t> calls;
  std::vector<Piece> pieces;
};

/// Goes through the events once, and puts each slice on its row when it has ended.
class Builder {
 public:
  explicit Builder(const Timeline& timeline) : timeline_(timeline) {}
  Slices build();

 private:
  void take(const Event& event);
  void submit(const Event& event);
  void finish(const Event& event);
  void plan(const Event& event);
  void enter(const Event& event);
  void close(const Event& event);
  void withdraw(const Event& event);
  void begin_piece(const Event& event);
  void end_piece(const Event& event);
  void end_batch(std::uint64_t gate, std::int64_t when, bool unfinished);
  void show_call(std::uint64_t id, std::int64_t end, std::string_view how, bool unfinished);
  void show_wait(Call& call, std::uint64_t gate, std::int64_t entered);
  void show_on_keys(std::uint64_t gate, const Batch& batch, std::int64_t end, bool unfinished);
  void show_pieces(std::int64_t key, std::uint64_t gate, const Batch& batch);
  void end_open();
  std::string title(std::uint64_t gate, const Batch& batch) const;
  std::uint32_t lane(const RowId& first, std::int64_t begin, std::int64_t end);
  Batch* moving() { return moving_ ? &batches_.at(*moving_) : nullptr; }

  const Timeline& timeline_;
  Slices slices_;
  std::unordered_map<std::uint64_t, Call> calls_;
  std::unordered_map<std::uint64_t, std::int64_t> planned_;  ///< by gate
  std::map<std::uint64_t, Batch> batches_;                   ///< by gate
  std::uint64_t entered_last_ = Slice::no_gate;
  std::optional<std::uint64_t> moving_;
  std::map<RowId, std::vector<std::int64_t>> lane_ends_;  ///< by the first lane's row
  std::int64_t last_ = 0;
};

Slices Builder::build() {
  for (const Event& event : timeline_.events()) take(event);
  end_open();
  for (auto& [row, slices] : slices_) {
    // What encloses others comes first.
    std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
  }
  return std::move(slices_);
}

void Builder::take(const Event& event) {
  last_ = std::max(last_, event.when);
  switch (event.mark) {
    case Mark::submitted:
      return submit(event);
    case Mark::finished:
    case Mark::failed:
      return finish(event);
    case Mark::planned:
      return plan(event);
    case Mark::entered:
      return enter(event);
    case Mark::item:
      batches_[entered_last_].calls.push_back(event.number);
      return;
    case Mark::closed:
      return close(event);
    case Mark::withdrawn:
      return withdraw(event);
    case Mark::started:
      moving_ = event.number;
      batches_[event.number].started = event.when;
      return;
    case Mark::done:
      return end_batch(event.number, event.when, false);
    case Mark::begins:
      return begin_piece(event);
    case Mark::ends:
      return end_piece(event);
  }
}

void Builder::submit(const Event& event) {
  calls_[event.number] = {
      .key = event.detail, .broadcast = event.broadcast, .submitted = event.when};
}

void Builder::finish(const Event& event) {
  show_call(event.number, event.when, event.mark == Mark::failed ? " (failed)" : "", false);
  calls_.erase(event.number);
}

void Builder::show_call(std::uint64_t id, std::int64_t end, std::string_view how, bool unfinished) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  const Call& call = found->second;
  const std::string_view method = call.broadcast ? "broadcast" : "pushpull";
  slices_[{.key = call.key, .kind = RowId::Kind::call}].push_back(
      {.begin = call.submitted,
       .end = end,
       .name = fmt::format("{}{}", method, how),
       .category = "call",
       .unfinished = unfinished});
}

void Builder::plan(const Event& event) {
  for (std::uint64_t i = 0; i < event.detail; ++i) planned_[event.number + i] = event.when;
}

void Builder::enter(const Event& event) {
  entered_last_ = event.number;
  Batch& batch = batches_[event.number];
  batch = Batch();
  batch.kib = event.detail;
  batch.entered = event.when;
}

void Builder::close(const Event& event) {
  Batch& batch = batches_[event.number];
  batch.closed = event.when;
  slices_[{.kind = RowId::Kind::gates}].push_back({.begin = batch.entered,
                                                   .end = event.when,
                                                   .name = title(event.number, batch),
                                                   .category = "gates",
                                                   .gate = event.number});
}

void Builder::withdraw(const Event& event) {
  Batch& batch = batches_[event.number];
  slices_[{.kind = RowId::Kind::gates}].push_back(
      {.begin = batch.entered,
       .end = event.when,
       .name = title(event.number, batch) + " (withdrawn)",
       .category = "withdrawn",
       .gate = event.number});
  batches_.erase(event.number);
}

void Builder::begin_piece(const Event& event) {
  if (Batch* const batch = moving()) {
    batch->pieces.push_back({event.stage, event.detail, event.when, never});
  }
}

void Builder::end_piece(const Event& event) {
  Batch* const batch = moving();
  if (batch == nullptr) return;
  const auto found =
      std::find_if(batch->pieces.rbegin(), batch->pieces.rend(), [&](const Piece& piece) {
        return piece.stage == event.stage && piece.chunk == event.detail;
      });
  if (found != batch->pieces.rend()) found->end = event.when;
}

void Builder::end_batch(std::uint64_t gate, std::int64_t when, bool unfinished) {
  Batch& batch = batches_[gate];
  for (Piece& piece : batch.pieces) {
    if (piece.end == never) piece.end = when;
  }
  if (batch.started != never) {
    slices_[{.kind = RowId::Kind::executor}].push_back({.begin = batch.started,
                                                        .end = when,
                                                        .name = title(gate, batch),
                                                        .category = "batch",
                                                        .gate = gate,
                                                        .kib = batch.kib,
                                                        .unfinished = unfinished});
  }
  show_on_keys(gate, batch, when, unfinished);
  batches_.erase(gate);
  planned_.erase(gate);
  if (moving_ == gate) moving_.reset();
}

/// "agree" until the plan has come; with none, in replay, everything is waiting for its turn.
void Builder::show_wait(Call& call, std::uint64_t gate, std::int64_t entered) {
  if (call.entered) return;
  call.entered = true;
  auto& row = slices_[{.key = call.key, .kind = RowId::Kind::call}];
  std::int64_t from = call.submitted;
  const auto planned = planned_.find(gate);
  if (planned != planned_.end() && planned->second > from) {
    row.push_back({.begin = from, .end = planned->second, .name = "agree", .category = "wait"});
    from = planned->second;
  }
  row.push_back({.begin = from, .end = entered, .name = "turn", .category = "wait"});
}

void Builder::show_on_keys(std::uint64_t gate, const Batch& batch, std::int64_t end,
                           bool unfinished) {
  for (const std::uint64_t id : batch.calls) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) continue;
    Call& call = found->second;
    show_wait(call, gate, batch.entered);
    RowId row{.key = call.key, .kind = RowId::Kind::call};
    row.lane = lane(row, batch.entered, end);
    const auto show = [&](std::int64_t from, std::int64_t to, const char* name,
                          const char* category) {
      const bool cut = unfinished && to == never;
      slices_[row].push_back({.begin = from,
                              .end = to == never ? end : to,
                              .name = name,
                              .category = category,
                              .gate = gate,
                              .kib = batch.kib,
                              .unfinished = cut});
    };
    show(batch.entered, batch.closed, "gate", "gate");
    if (batch.closed != never && batch.closed != batch.started) {
      show(batch.closed, batch.started, "held", "wait");
    }
    if (batch.started != never) show(batch.started, never, "move", "move");
    show_pieces(call.key, gate, batch);
  }
}

/// A batch of one tensor chunk by chunk; of several, each stage from its first to its last.
void Builder::show_pieces(std::int64_t key, std::uint64_t gate, const Batch& batch) {
  std::vector<Piece> shown;
  if (batch.calls.size() == 1) {
    shown = batch.pieces;
  } else {
    std::array<std::optional<Piece>, stages> whole;
    for (const Piece& piece : batch.pieces) {
      auto& stage = whole[static_cast<std::size_t>(piece.stage)];
      if (!stage) stage = {piece.stage, -1, piece.begin, piece.end};
      stage->begin = std::min(stage->begin, piece.begin);
      stage->end = std::max(stage->end, piece.end);
    }
    for (const auto& stage : whole) {
      if (stage) shown.push_back(*stage);
    }
  }
  for (const Piece& piece : shown) {
    RowId row{.key = key, .kind = RowId::Kind::stage, .stage = piece.stage};
    row.lane = lane(row, piece.begin, piece.end);
    slices_[row].push_back({.begin = piece.begin,
                            .end = piece.end,
                            .name = std::string(name(piece.stage)),
                            .category = "stage",
                            .gate = gate,
                            .chunk = piece.chunk});
  }
}

std::uint32_t Builder::lane(const RowId& first, std::int64_t begin, std::int64_t end) {
  auto& ends = lane_ends_[first];
  const auto free = std::find_if(ends.begin(), ends.end(), [&](auto e) { return e <= begin; });
  const auto at = static_cast<std::uint32_t>(free - ends.begin());
  if (free == ends.end()) ends.push_back(0);
  ends[at] = end;
  return at;
}

void Builder::end_open() {
  while (!batches_.empty()) end_batch(batches_.begin()->first, last_, true);
  for (auto& [id, call] : calls_) {
    if (!call.entered) {
      slices_[{.key = call.key, .kind = RowId::Kind::call}].push_back({.begin = call.submitted,
                                                                       .end = last_,
                                                                       .name = "agree",
                                                                       .category = "wait",
                                                                       .unfinished = true});
    }
    show_call(id, last_, "", true);
  }
}

/// "batch 1.12: 'w', 'b' and 3 more".
std::string Builder::title(std::uint64_t gate, const Batch& batch) const {
  constexpr std::size_t most = 2;
  std::string text = fmt::format("batch {}.{}", gate >> Timeline::gate_bits,
                                 gate & ((std::uint64_t{1} << Timeline::gate_bits) - 1));
  for (std::size_t i = 0; i < std::min(most, batch.calls.size()); ++i) {
    const auto call = calls_.find(batch.calls[i]);
    if (call == calls_.end()) continue;
    text += i == 0 ? ": " : ", ";
    text += timeline_.rows()[static_cast<std::size_t>(call->second.key)].describe();
  }
  if (batch.calls.size() > most) text += fmt::format(" and {} more", batch.calls.size() - most);
  return text;
}

}  // namespace

std::string RowId::name(const Timeline& timeline) const {
  if (kind == Kind::executor) return "tutti-exec";
  if (kind == Kind::gates) return "gates";
  std::string text = timeline.rows()[static_cast<std::size_t>(key)].describe();
  if (kind == Kind::stage) text += fmt::format(" {}", observe::name(stage));
  if (lane > 0) text += fmt::format(" ({})", lane + 1);
  return text;
}

Slices slices_of(const Timeline& timeline) {
  return Builder(timeline).build();
}

}  // namespace tutti::observe
