#include "observe/trace_merge.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "observe/clock_bounds.h"
#include "observe/slices.h"

namespace tutti::observe {
namespace {

using nlohmann::json;

constexpr double ns_in_us = 1000;
constexpr std::string_view time_field = R"({"ts":)";
constexpr std::string_view length_field = R"(,"dur":)";

/// One machine's gates, in the order of batches, which is that of time.
using Gates = std::map<std::pair<std::uint64_t, std::uint64_t>, Passage>;

/// What is known of a file before it is copied.
struct Part {
  json about;  ///< the "args" of its first event
  int node = 0;
  std::int64_t clock_error = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::pair<std::int64_t, std::int64_t>> gates;
};

std::int64_t to_ns(double us) {
  return std::llround(us * ns_in_us);
}

double us(std::int64_t ns) {
  return static_cast<double>(ns) / ns_in_us;
}

/// Calls `visit` with each event's text. False: the file is not there or was cut short.
template <typename Visit>
bool for_each_event(const std::string& file, const Visit& visit) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line) || line != "[") return false;
  while (std::getline(in, line) && line != "]") {
    if (line.ends_with(',')) line.pop_back();
    visit(line);
  }
  return line == "]";
}

std::pair<std::uint64_t, std::uint64_t> batch_of(const std::string& text) {
  std::pair<std::uint64_t, std::uint64_t> batch;
  const char* const end = text.data() + text.size();
  const auto [dot, error] = std::from_chars(text.data(), end, batch.first);
  if (error == std::errc() && dot != end) std::from_chars(dot + 1, end, batch.second);
  return batch;
}

std::optional<Part> look_at(const std::string& file) {
  Part part;
  const std::string gate = fmt::format(R"("cat":"{}")", gates_category);
  try {
    const bool whole = for_each_event(file, [&](const std::string& line) {
      if (part.about.is_null()) {
        part.about = json::parse(line).at("args");
        part.node = part.about.at("node");
        part.clock_error = to_ns(part.about.at("clock_error_us"));
      } else if (line.find(gate) != std::string::npos) {
        const json event = json::parse(line);
        const double begin = event.at("ts");
        const double lasted = event.at("dur");
        part.gates[batch_of(event.at("args").at("batch"))] = {to_ns(begin), to_ns(begin + lasted)};
      }
    });
    if (!whole || part.about.is_null()) return std::nullopt;
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return part;
}

/// By node.
std::map<int, Gates> gates_of(const std::vector<std::optional<Part>>& parts) {
  std::map<int, Gates> nodes;
  for (const auto& part : parts) {
    if (!part) continue;
    for (const auto& [batch, times] : part->gates) {
      nodes[part->node][batch].add(times.first, times.second);
    }
  }
  return nodes;
}

/// By node.
std::map<int, Drift> drifts_of(const std::vector<std::optional<Part>>& parts, int reference) {
  std::map<int, Gates> nodes = gates_of(parts);
  const Gates& ours = nodes[reference];
  std::map<int, Drift> drifts;
  for (const auto& part : parts) {
    if (!part || part->node == reference || drifts.contains(part->node)) continue;
    std::vector<Meeting> meetings;
    for (const auto& [batch, other] : nodes[part->node]) {
      const auto here = ours.find(batch);
      if (here != ours.end()) meetings.push_back({here->second, other});
    }
    drifts[part->node] = Drift(meetings, part->clock_error);
  }
  return drifts;
}

std::int64_t corrected(std::int64_t when, const Drift& drift) {
  return when + drift.at(when);
}

/// The line with its begin and its end put right.
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
  json event = json::parse(line);
  event["args"]["clock_drift_us"] = {us(drift.first()), us(drift.last())};
  event["args"]["clock_error_us"] = us(drift.error());
  return event.dump();
}

}  // namespace

std::vector<int> merge_traces(const std::vector<std::string>& files, std::ostream& out) {
  std::vector<std::optional<Part>> parts;
  parts.reserve(files.size());
  for (const std::string& file : files) parts.push_back(look_at(file));
  std::vector<int> missing;
  const auto& first = parts.front();
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (!parts[rank] || !first || parts[rank]->about.value("job", "") != first->about.at("job")) {
      missing.push_back(static_cast<int>(rank));
      parts[rank].reset();
    }
  }
  if (!first) return missing;
  std::map<int, Drift> drifts = drifts_of(parts, first->node);
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
