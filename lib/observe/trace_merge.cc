#include "observe/trace_merge.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ext/stdio_filebuf.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/regular_file.h"
#include "observe/clock_bounds.h"
#include "observe/microseconds.h"
#include "observe/slices.h"

namespace tutti::observe {
namespace {

using nlohmann::json;

constexpr std::string_view time_field = R"({"ts":)";
constexpr std::string_view length_field = R"(,"dur":)";

/// The epoch, and the number of the batch in it. Sorting by it sorts by time.
using BatchInEpoch = std::pair<std::uint64_t, std::uint64_t>;

/// The gates of each node.
using Gates = std::map<int, std::map<BatchInEpoch, Passage>>;

/// The result of a first reading of a file, before it is copied.
struct Part {
  std::string job;
  int node = 0;
  std::int64_t clock_error = 0;
};

/// No recording is longer, and sums of a few such times do not overflow.
constexpr double longest_ns = 1e17;

std::int64_t to_ns(double us) {
  const double ns = us * ns_in_us;
  return std::abs(ns) < longest_ns ? std::llround(ns) : 0;
}

/// Ten times the longest event that `write_trace` writes, the name of a key, escaped.
constexpr std::size_t longest_event = std::size_t{64} << 10;

/// Reads the next line. Returns false if there is none, or if it is longer than any event.
bool next_line(std::istream& in, std::string& line) {
  line.resize(longest_event);
  in.getline(line.data(), static_cast<std::streamsize>(line.size()));
  const std::streamsize taken = in.gcount();
  if (!in) return false;
  line.resize(static_cast<std::size_t>(in.eof() ? taken : taken - 1));
  return true;
}

/// Calls `visit` with each event's text. Returns false if the file does not exist, was not written
/// by `write_trace`, or was cut short.
template <typename Visit>
bool for_each_event(const std::string& file, const Visit& visit) {
  base::RegularFile opened = base::open_regular(file, O_RDONLY | O_NOFOLLOW);
  if (!opened.file) return false;
  __gnu_cxx::stdio_filebuf<char> buffer(opened.file.release(), std::ios::in);
  std::istream in(&buffer);
  std::string line;
  if (!next_line(in, line) || line != "[") return false;
  while (next_line(in, line) && line != "]") {
    if (line.ends_with(',')) line.pop_back();
    visit(line);
  }
  return line == "]";
}

BatchInEpoch batch_of(const std::string& text) {
  BatchInEpoch batch;
  const char* const end = text.data() + text.size();
  const auto [dot, error] = std::from_chars(text.data(), end, batch.first);
  if (error == std::errc() && dot != end) std::from_chars(dot + 1, end, batch.second);
  return batch;
}

/// Parses a line. Leaves out values that are nested deeper than those of any event, because copying
/// and writing recurse.
json event_of(const std::string& line) {
  constexpr int deepest = 8;
  return json::parse(line, [](int depth, json::parse_event_t, json&) { return depth <= deepest; });
}

Part part_of(const std::string& line) {
  const json event = event_of(line);
  const json& about = event.at("args");
  Part part;
  part.job = about.at("job");
  part.node = static_cast<int>(about.at("node").get_ref<const std::int64_t&>());
  part.clock_error = std::max<std::int64_t>(to_ns(about.at("clock_error_us")), 0);
  return part;
}

void add_gate(const json& event, std::map<BatchInEpoch, Passage>& gates) {
  const double begin = event.at("ts");
  const double lasted = event.at("dur");
  gates[batch_of(event.at("args").at("batch"))].add(to_ns(begin), to_ns(begin + lasted));
}

/// Reads a file, and adds its gates to those of its node. Returns nothing if the file is missing,
/// cut short or not of this job. "" stands for any job.
std::optional<Part> look_at(const std::string& file, const std::string& job, Gates& gates) {
  std::optional<Part> part;
  const std::string gate = fmt::format(R"("cat":"{}")", gates_category);
  try {
    const bool whole = for_each_event(file, [&](const std::string& line) {
      if (!part) {
        part = part_of(line);
      } else if ((job.empty() || part->job == job) && line.find(gate) != std::string::npos) {
        add_gate(event_of(line), gates[part->node]);
      }
    });
    if (whole && part && (job.empty() || part->job == job)) return part;
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

/// The correction of each node's clock, except the reference's.
std::map<int, Drift> drifts_of(const std::vector<std::optional<Part>>& parts, Gates& gates,
                               int reference) {
  std::map<int, Drift> drifts;
  for (const auto& part : parts) {
    if (!part || part->node == reference || drifts.contains(part->node)) continue;
    std::vector<ClockSample> meetings;
    for (const auto& [batch, other] : gates[part->node]) {
      const auto here = gates[reference].find(batch);
      if (here != gates[reference].end()) meetings.push_back({here->second, other});
    }
    drifts[part->node] = Drift(meetings, part->clock_error);
  }
  return drifts;
}

std::int64_t corrected(std::int64_t when, const Drift& drift) {
  return when + drift.at(when);
}

/// The line, with its begin and end corrected.
std::string shifted(const std::string& line, const Drift& drift) {
  const char* const end = line.data() + line.size();
  double begin = 0;
  double lasted = 0;
  if (!line.starts_with(time_field)) return line;
  const char* at = std::from_chars(line.data() + time_field.size(), end, begin).ptr;
  if (!std::string_view(at, end).starts_with(length_field)) return line;
  at = std::from_chars(at + length_field.size(), end, lasted).ptr;
  const std::int64_t from = corrected(to_ns(begin), drift);
  const std::int64_t to = corrected(to_ns(begin + lasted), drift);
  return fmt::format("{}{:.3f}{}{:.3f}{}", time_field, us(from), length_field, us(to - from),
                     std::string_view(at, end));
}

std::string with_drift(const std::string& line, const Drift& drift) {
  json event = event_of(line);
  event["args"]["clock_drift_us"] = {us(drift.first()), us(drift.last())};
  event["args"]["clock_error_us"] = us(drift.error());
  return event.dump();
}

}  // namespace

std::vector<int> merge_traces(const std::vector<std::string>& files, std::ostream& out) {
  std::vector<std::optional<Part>> parts;
  Gates gates;
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < files.size(); ++rank) {
    const bool lost = rank > 0 && !parts.front();
    parts.push_back(lost ? std::nullopt
                         : look_at(files[rank], rank == 0 ? "" : parts.front()->job, gates));
    if (!parts.back()) missing.push_back(static_cast<int>(rank));
  }
  if (!parts.front()) return missing;
  std::map<int, Drift> drifts = drifts_of(parts, gates, parts.front()->node);
  const char* between = "[\n";
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (!parts[rank]) continue;
    const Drift drift = drifts[parts[rank]->node];
    bool head = true;
    for_each_event(files[rank], [&](const std::string& line) {
      out << between << (head ? with_drift(line, drift) : shifted(line, drift));
      head = false;
      between = ",\n";
    });
  }
  out << "\n]\n";
  return missing;
}

}  // namespace tutti::observe
