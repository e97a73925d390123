#include "observe/trace.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "observe/trace_merge.h"

using namespace tutti;
using namespace tutti::observe;
using nlohmann::json;

namespace {

class Folder {
 public:
  Folder() { std::filesystem::create_directory(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("tutti-trace-" + std::to_string(::getpid()));
};

void one_batch(Timeline& timeline, const Key& key, std::uint64_t number) {
  timeline.record_submitted(timeline.now(), number + 1, 0, key, CollectiveKind::allreduce);
  timeline.record_entered(timeline.now(), 0, number, 0);
  timeline.record_part(number + 1);
  timeline.record_closed(timeline.now(), 0, number);
  timeline.record_started(0, number, true);
  timeline.record_done(timeline.now(), 0, number);
  timeline.record_finished(number + 1, true);
}

TraceInfo info_of(int rank, std::int64_t origin) {
  TraceInfo info;
  info.rank = info.node = rank;
  info.host = "host \"" + std::to_string(rank) + "\"";
  info.origin = origin;
  return info;
}

std::int64_t now_ns() {
  return std::chrono::nanoseconds(base::Clock::now().time_since_epoch()).count();
}

/// The events of what, and of whom.
std::vector<json> find(const json& trace, const std::string& name, int rank) {
  std::vector<json> result;
  for (const json& event : trace) {
    if (event.at("name") == name && event.at("pid") == rank + 1) result.push_back(event);
  }
  return result;
}

}  // namespace

TEST_CASE("a trace is JSON with the rank's name, a row for each key, and times from the origin") {
  Timeline timeline(100);
  one_batch(timeline, "w\"eird\xff", 0);
  std::ostringstream out;
  TraceInfo info = info_of(2, timeline.events().front().when - 5'000);
  info.clock_offset = 2'000;
  write_trace(out, timeline, info);
  const json trace = json::parse(out.str());
  CHECK(find(trace, "process_name", 2).at(0)["args"]["name"] == "rank 2 on host \"2\"");
  const auto rows = find(trace, "thread_name", 2);
  REQUIRE(rows.size() == 3);
  for (std::size_t row = 0; row < rows.size(); ++row) CHECK(rows[row]["tid"] == 3 + row);
  CHECK(find(trace, "pushpull", 2).at(0)["ts"] == 7.0);
  CHECK(find(trace, "tutti", 2).at(0)["args"]["events"] == 7);
}

TEST_CASE("ranks' traces are merged on one clock, with its errors taken out") {
  const Folder folder;
  const std::int64_t origin = now_ns();
  Timeline timeline(1000);
  for (std::uint64_t i = 0; i < 20; ++i) one_batch(timeline, "w", i);
  // One recording, told by two machines: the second one's clock was set 3 ms wrong.
  for (const int rank : {0, 1}) {
    TraceInfo info = info_of(rank, origin);
    info.clock_offset = rank * std::int64_t{3'000'000};
    info.clock_error = rank * std::int64_t{4'000'000};
    std::ofstream out(folder / std::to_string(rank));
    write_trace(out, timeline, info);
  }
  std::ostringstream merged;
  CHECK(merge_traces({folder / "0", folder / "1"}, merged).empty());
  const json trace = json::parse(merged.str());
  const auto here = find(trace, "gate", 0);
  const auto there = find(trace, "gate", 1);
  REQUIRE(here.size() == 20);
  REQUIRE(there.size() == 20);
  const json about = find(trace, "tutti", 1).at(0)["args"];
  const double error = about["clock_error_us"];
  CHECK(error < 4000);
  for (std::size_t i = 0; i < here.size(); ++i) {
    const double apart = there[i]["ts"].get<double>() - here[i]["ts"].get<double>();
    CHECK(std::abs(apart) <= error + 1);
  }
}

TEST_CASE("parts that are missing, cut short or of another job are named and left out") {
  const Folder folder;
  Timeline timeline(100);
  one_batch(timeline, "w", 0);
  for (const int rank : {0, 2, 3}) {
    std::ofstream out(folder / std::to_string(rank));
    write_trace(out, timeline, info_of(rank, rank == 2 ? 77 : 88));
  }
  const std::string cut = folder / "3";
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 10);
  std::ostringstream merged;
  const auto missing =
      merge_traces({folder / "0", folder / "1", folder / "2", folder / "3"}, merged);
  CHECK(missing == std::vector<int>{1, 2, 3});
  const json trace = json::parse(merged.str());
  CHECK(find(trace, "pushpull", 0).size() == 1);
  CHECK(find(trace, "pushpull", 2).empty());
}

TEST_CASE("a file in a part's place is not read without end") {
  const Folder folder;
  Timeline timeline(100);
  one_batch(timeline, "w", 0);
  {
    std::ofstream out(folder / "0");
    write_trace(out, timeline, info_of(0, 88));
  }
  std::filesystem::create_symlink("/dev/zero", folder / "1");
  REQUIRE(::mkfifo((folder / "2").c_str(), 0600) == 0);
  // One file has a line that is longer than any event. The link leads to a complete trace in
  // another place.
  std::ofstream(folder / "3") << "[\n" << std::string(std::size_t{1} << 20, ' ') << "\n]\n";
  std::filesystem::create_symlink(folder / "0", folder / "4");
  std::vector<std::string> parts;
  for (const char* rank : {"0", "1", "2", "3", "4"}) parts.push_back(folder / rank);
  std::ostringstream merged;
  CHECK(merge_traces(parts, merged) == std::vector<int>{1, 2, 3, 4});
  CHECK(find(json::parse(merged.str()), "pushpull", 0).size() == 1);
}
