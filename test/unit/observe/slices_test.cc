#include "observe/slices.h"

#include <catch2/catch.hpp>
#include <map>

using namespace tutti;

using observe::Stage;
using observe::Timeline;
using observe::TraceSlice;

namespace {

/// Rows by name.
std::map<std::string, std::vector<TraceSlice>> rows_of(const Timeline& timeline) {
  std::map<std::string, std::vector<TraceSlice>> rows;
  for (auto& [id, slices] : observe::slices_of(timeline)) rows[id.name(timeline)] = slices;
  return rows;
}

std::vector<std::string> names(const std::vector<TraceSlice>& slices) {
  std::vector<std::string> result;
  result.reserve(slices.size());
  for (const TraceSlice& slice : slices) result.push_back(slice.name);
  return result;
}

using Names = std::vector<std::string>;

void chunk(Timeline& timeline, std::uint64_t number) {
  for (const Stage stage : {Stage::copy_in, Stage::sum, Stage::copy_out}) {
    timeline.record_stage_begin(0, stage, number);
    timeline.record_stage_end(0, stage, number);
  }
}

}  // namespace

TEST_CASE("a call's slices follow each other within it") {
  Timeline timeline(100);
  timeline.record_submitted(timeline.now(), 1, 0, "w", CollectiveKind::allreduce);
  timeline.record_planned(0, 0, 1);
  timeline.record_entered(timeline.now(), 0, 0, 4096);
  timeline.record_part(1);
  timeline.record_closed(timeline.now(), 0, 0);
  timeline.record_started(0, 0, false);
  chunk(timeline, 0);
  timeline.record_done(timeline.now(), 0, 0);
  timeline.record_finished(1, true);
  const auto rows = rows_of(timeline);
  const auto& call = rows.at("'w'");
  REQUIRE(names(call) == Names{"pushpull", "agree", "turn", "gate", "held", "move"});
  CHECK(call[0].begin == call[1].begin);
  for (std::size_t i = 2; i < call.size(); ++i) CHECK(call[i].begin == call[i - 1].end);
  CHECK(call.back().end == call[0].end);
  CHECK(names(rows.at("tutti-exec")) == Names{"batch 0.0: 'w'"});
  CHECK(rows.at("tutti-exec")[0].kib == 4);
  CHECK(rows.at("gates").size() == 1);
  for (const char* stage : {"'w' copy in", "'w' sum", "'w' copy out"}) {
    REQUIRE(rows.at(stage).size() == 1);
    CHECK(rows.at(stage)[0].begin >= call.back().begin);
    CHECK(rows.at(stage)[0].end <= call.back().end);
  }
}

TEST_CASE("a replayed call has no plan to wait for, and one that starts at once is not held") {
  Timeline timeline(100);
  timeline.record_submitted(timeline.now(), 1, 0, 7, CollectiveKind::broadcast);
  timeline.record_entered(timeline.now(), 3, 0, 0);
  timeline.record_part(1);
  timeline.record_closed(timeline.now(), 3, 0);
  timeline.record_started(3, 0, true);
  timeline.record_done(timeline.now(), 3, 0);
  timeline.record_finished(1, true);
  CHECK(names(rows_of(timeline).at("7")) == Names{"broadcast", "turn", "gate", "move"});
}

TEST_CASE("a call bears the name of its method") {
  const std::vector<std::pair<CollectiveKind, std::string>> methods = {
      {CollectiveKind::allreduce, "pushpull"},
      {CollectiveKind::broadcast, "broadcast"},
      {CollectiveKind::reduce_scatter, "reduce_scatter"},
      {CollectiveKind::allgather, "allgather"}};
  for (const auto& [method, name] : methods) {
    Timeline timeline(100);
    timeline.record_submitted(timeline.now(), 1, 0, "w", method);
    CHECK(rows_of(timeline).at("'w'").front().name == name);
  }
}

TEST_CASE("every member of a fused batch shows it") {
  Timeline timeline(100);
  timeline.record_submitted(timeline.now(), 1, 0, "a", CollectiveKind::allreduce);
  timeline.record_submitted(timeline.now(), 2, 1, "b", CollectiveKind::allreduce);
  timeline.record_entered(timeline.now(), 0, 0, 0);
  timeline.record_part(1);
  timeline.record_part(2);
  timeline.record_closed(timeline.now(), 0, 0);
  timeline.record_started(0, 0, true);
  chunk(timeline, 0);
  chunk(timeline, 1);
  timeline.record_done(timeline.now(), 0, 0);
  for (const std::uint64_t call : {1U, 2U}) timeline.record_finished(call, true);
  const auto rows = rows_of(timeline);
  CHECK(names(rows.at("tutti-exec")) == Names{"batch 0.0: 'a', 'b'"});
  for (const char* key : {"'a'", "'b'"}) {
    CHECK(names(rows.at(key)) == Names{"pushpull", "turn", "gate", "move"});
    // The slice goes from the first chunk to the last.
    REQUIRE(rows.at(std::string(key) + " sum").size() == 1);
  }
}

TEST_CASE("a part whose gate is open while another part moves has a track of its own") {
  Timeline timeline(100);
  timeline.record_submitted(timeline.now(), 1, 0, "w", CollectiveKind::allreduce);
  timeline.record_entered(timeline.now(), 0, 0, 0);
  timeline.record_part(1);
  timeline.record_closed(timeline.now(), 0, 0);
  timeline.record_started(0, 0, true);
  timeline.record_entered(timeline.now(), 0, 1, 0);
  timeline.record_part(1);
  timeline.record_closed(timeline.now(), 0, 1);
  timeline.record_done(timeline.now(), 0, 0);
  timeline.record_started(0, 1, false);
  timeline.record_done(timeline.now(), 0, 1);
  timeline.record_finished(1, true);
  const auto rows = rows_of(timeline);
  CHECK(names(rows.at("'w'")) == Names{"pushpull", "turn", "gate", "move"});
  CHECK(names(rows.at("'w' (2)")) == Names{"gate", "held", "move"});
}

TEST_CASE("chunks that are in one stage at once have tracks of their own") {
  Timeline timeline(100);
  timeline.record_submitted(timeline.now(), 1, 0, "w", CollectiveKind::allreduce);
  timeline.record_entered(timeline.now(), 0, 0, 0);
  timeline.record_part(1);
  timeline.record_closed(timeline.now(), 0, 0);
  timeline.record_started(0, 0, true);
  timeline.record_stage_begin(0, Stage::sum, 0);
  timeline.record_stage_begin(0, Stage::sum, 1);
  timeline.record_stage_end(0, Stage::sum, 0);
  timeline.record_stage_end(0, Stage::sum, 1);
  timeline.record_stage_begin(0, Stage::sum, 2);
  timeline.record_done(timeline.now(), 0, 0);
  timeline.record_finished(1, true);
  const auto rows = rows_of(timeline);
  REQUIRE(rows.at("'w' sum").size() == 2);
  REQUIRE(rows.at("'w' sum (2)").size() == 1);
  const TraceSlice& first = rows.at("'w' sum")[0];
  const TraceSlice& second = rows.at("'w' sum (2)")[0];
  CHECK(first.chunk == 0);
  CHECK(second.chunk == 1);
  CHECK(first.end <= second.end);
  // If a stage has not reported its end, it ended with its batch.
  CHECK(rows.at("'w' sum")[1].end == rows.at("tutti-exec")[0].end);
}

TEST_CASE("parts that move at once are told apart") {
  Timeline timeline(100);
  for (const std::uint32_t batch : {0U, 1U}) {
    timeline.record_submitted(timeline.now(), batch, batch, static_cast<int>(batch),
                              CollectiveKind::allreduce);
    timeline.record_entered(timeline.now(), 0, batch, 0);
    timeline.record_part(batch);
    timeline.record_closed(timeline.now(), 0, batch);
    timeline.record_started(0, batch, true);
    timeline.record_stage_begin(batch, Stage::sum, 0);
  }
  timeline.record_stage_begin(0, Stage::copy_in, 1);
  timeline.record_stage_end(0, Stage::copy_in, 1);
  timeline.record_stage_end(0, Stage::sum, 0);
  for (const auto ended = timeline.now(); timeline.now() <= ended;) continue;
  timeline.record_done(timeline.now(), 0, 0);
  timeline.record_stage_end(1, Stage::sum, 0);
  timeline.record_stage_begin(1, Stage::copy_out, 0);
  timeline.record_stage_end(1, Stage::copy_out, 0);
  timeline.record_done(timeline.now(), 0, 1);
  const auto rows = rows_of(timeline);
  CHECK(names(rows.at("tutti-exec")) == Names{"batch 0.0: 0"});
  CHECK(names(rows.at("tutti-exec (2)")) == Names{"batch 0.1: 1"});
  REQUIRE(rows.at("0 sum").size() == 1);
  REQUIRE(rows.at("1 sum").size() == 1);
  CHECK(rows.at("0 sum")[0].end <= rows.at("1 sum")[0].end);
  // The stage ended before its batch.
  CHECK(rows.at("0 sum")[0].end < rows.at("tutti-exec")[0].end);
  CHECK(rows.at("0 copy in").size() == 1);
  CHECK(rows.count("1 copy in") == 0);
  CHECK(rows.count("0 copy out") == 0);
  CHECK(rows.at("1 copy out").size() == 1);
}

TEST_CASE("one plan is for several batches, and a batch's title names two of its calls") {
  Timeline timeline(100);
  for (const int call : {1, 2, 3, 4}) {
    timeline.record_submitted(timeline.now(), static_cast<std::uint64_t>(call),
                              static_cast<std::uint32_t>(call), call, CollectiveKind::allreduce);
  }
  timeline.record_planned(0, 0, 2);
  timeline.record_entered(timeline.now(), 0, 0, 0);
  timeline.record_part(1);
  timeline.record_entered(timeline.now(), 0, 1, 0);
  for (const std::uint64_t call : {2U, 3U, 4U}) timeline.record_part(call);
  for (const std::uint64_t batch : {0U, 1U}) {
    timeline.record_closed(timeline.now(), 0, batch);
    timeline.record_started(0, batch, true);
    timeline.record_done(timeline.now(), 0, batch);
  }
  for (const std::uint64_t call : {1U, 2U, 3U, 4U}) timeline.record_finished(call, true);
  const auto rows = rows_of(timeline);
  for (const char* key : {"1", "4"}) {
    CHECK(names(rows.at(key)) == Names{"pushpull", "agree", "turn", "gate", "move"});
  }
  CHECK(names(rows.at("tutti-exec")) == Names{"batch 0.0: 1", "batch 0.1: 2, 3 and 1 more"});
}

TEST_CASE("a slice that was withdrawn, failed or never ended says so") {
  Timeline timeline(100);
  timeline.record_submitted(timeline.now(), 1, 0, "w", CollectiveKind::allreduce);
  timeline.record_submitted(timeline.now(), 2, 1, "odd", CollectiveKind::allreduce);
  timeline.record_submitted(timeline.now(), 3, 2, "late", CollectiveKind::allreduce);
  timeline.record_entered(timeline.now(), 0, 0, 0);
  timeline.record_part(1);
  timeline.record_withdrawn(timeline.now(), 0, 0);
  timeline.record_entered(timeline.now(), 1, 0, 0);
  timeline.record_part(1);
  timeline.record_part(2);
  timeline.record_finished(2, false);
  timeline.record_closed(timeline.now(), 1, 0);
  timeline.record_started(1, 0, true);
  timeline.record_stage_begin(Timeline::gate(1, 0), Stage::sum, 0);
  const auto rows = rows_of(timeline);
  CHECK(names(rows.at("gates")) == Names{"batch 0.0: 'w' (withdrawn)", "batch 1.0: 'w', 'odd'"});
  // It was waiting for the gate that was not withdrawn.
  const auto& call = rows.at("'w'");
  REQUIRE(names(call) == Names{"pushpull", "turn", "gate", "move"});
  CHECK(call[1].end == call[2].begin);
  CHECK(call[2].end == call[3].begin);
  CHECK(call[3].unfinished);
  CHECK_FALSE(call[2].unfinished);
  CHECK(names(rows.at("'odd'")) == Names{"pushpull (failed)", "turn"});
  CHECK(names(rows.at("'late'")) == Names{"pushpull", "agree"});
  CHECK(rows.at("'late'")[0].unfinished);
  CHECK(rows.at("tutti-exec")[0].unfinished);
  CHECK(rows.at("'w' sum").size() == 1);
}
