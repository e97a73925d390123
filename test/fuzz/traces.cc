#include <filesystem>
#include <fstream>
#include <sstream>

#include "fuzz/decoders.h"
#include "fuzz/folder.h"
#include "net/bytes.h"
#include "observe/trace.h"
#include "observe/trace_merge.h"

namespace tutti::fuzz {
namespace {

/// Between the parts of an input, one for each rank.
constexpr char end_of_part = '\0';
constexpr std::size_t most_parts = 3;

std::string written(const Folder& folder, std::size_t rank, std::string_view text) {
  std::string name = folder.path() + "/" + std::to_string(rank);
  // Some file systems write a file at once that was cut to nothing.
  std::filesystem::remove(name);
  std::ofstream(name, std::ios::binary) << text;
  return name;
}

bool merge(Bytes bytes) {
  static const Folder folder;
  std::string_view rest = net::as_text(bytes);
  std::vector<std::string> files;
  while (files.size() < most_parts) {
    const std::string_view part = rest.substr(0, rest.find(end_of_part));
    files.push_back(written(folder, files.size(), part));
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
  std::ostringstream merged;
  return observe::merge_traces(files, merged).empty();
}

constexpr Decoder all[] = {{merge}};

observe::Timeline recording() {
  observe::Timeline timeline(100);
  for (std::uint64_t batch = 0; batch < 2; ++batch) {
    timeline.record_submitted(timeline.now(), batch + 1, 0, "w", CollectiveKind::allreduce);
    timeline.record_entered(timeline.now(), 0, batch, 0);
    timeline.record_part(batch + 1);
    timeline.record_closed(timeline.now(), 0, batch);
    timeline.record_started(0, batch, true);
    timeline.record_done(timeline.now(), 0, batch);
    timeline.record_finished(batch + 1, true);
  }
  return timeline;
}

/// Each rank is a node of its own, and their clocks differ.
std::string trace_of(int rank, const observe::Timeline& timeline) {
  observe::TraceInfo info;
  info.rank = info.node = rank;
  info.host = "host";
  info.origin = timeline.events().front().when;
  info.clock_offset = rank * std::int64_t{3'000'000};
  std::ostringstream text;
  observe::write_trace(text, timeline, info);
  return text.str();
}

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  std::vector<Seed> seeds;
  const observe::Timeline timeline = recording();
  const std::string one = trace_of(0, timeline);
  for (const std::string& text : {one, one + end_of_part + trace_of(1, timeline)}) {
    const Bytes bytes = net::as_bytes(text);
    seeds.push_back({0, {bytes.begin(), bytes.end()}});
  }
  return seeds;
}

}  // namespace tutti::fuzz
