#include "benchmarks/allreduce/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "benchmarks/allreduce/bound.h"
#include "benchmarks/build_type.h"

namespace tutti::bench {
namespace {

std::size_t bytes_of(const Row& row, const Settings& settings) {
  return row.count * size_of(settings.dtype);
}

std::string label(const Row& row) {
  return row.impl + (row.shared ? " shared" : "");
}

std::string_view reduction(const Row& row) {
  return reduces(row.how.op) ? name(row.how.redop) : "none";
}

/// How many bytes travel between hosts for each byte of the tensor.
double share_on_wire(const Row& row, const Settings& settings) {
  const bool halved = row.impl != "mpi" && settings.wire != "none" &&
                      settings.dtype == DType::f32 && reduces(row.how.op);
  return halved ? 0.5 : 1;
}

/// The seconds that the operation takes at least; 0: not known.
double least_seconds(const Row& row, const Setup& setup) {
  const auto bytes = static_cast<double>(bytes_of(row, setup.settings));
  const double link = setup.settings.link_gbps * 1e9 / 8;
  const double between = bytes_on_link(row.how.op, bytes, setup.host_of_rank);
  if (between > 0) return link > 0 ? between * share_on_wire(row, setup.settings) / link : 0;
  return row.copy_rate > 0 ? bytes_in_memory(row.how, bytes, setup.ranks) / row.copy_rate : 0;
}

/// The lane with which the others are compared: MPI, or tutti with private tensors if MPI is not
/// measured.
std::string rival(const Settings& settings) {
  return settings.runs("mpi") || settings.impls.size() == 1 ? "mpi" : "tutti";
}

/// How many times as long the rival took; "-" if it was not measured.
std::string against(const std::string& impl, const Row& row, const std::vector<Row>& rows) {
  const auto rival = std::find_if(rows.begin(), rows.end(), [&](const Row& other) {
    return other.impl == impl && !other.shared && other.count == row.count;
  });
  if (rival == rows.end()) return "-";
  return fmt::format("{:.2f}", rival->times.p50 / row.times.p50);
}

}  // namespace

int Setup::hosts() const {
  return 1 + *std::ranges::max_element(host_of_rank);
}

Bandwidth bandwidth(const Row& row, const Setup& setup) {
  const auto bytes = static_cast<double>(bytes_of(row, setup.settings));
  const double factor = bus_factor(row.how.op, setup.ranks);
  const double algorithm = bytes / row.times.p50 / 1e3;
  const double least = least_seconds(row, setup);
  return {algorithm, algorithm * factor, least > 0 ? bytes * factor / least / 1e9 : 0};
}

std::string head(const Setup& setup) {
  const Settings& s = setup.settings;
  std::string text = fmt::format("# allreduce_bench of tutti {}, {} rank{} on {} host{}: {}\n",
                                 version(), setup.ranks, setup.ranks == 1 ? "" : "s", setup.hosts(),
                                 setup.hosts() == 1 ? "" : "s", setup.mapping);
  if (!setup.begin.empty()) text += "# " + setup.begin + "\n";
  text += build_type_line();
  for (const std::string& fact : setup.facts) text += "# " + fact + "\n";
  text += fmt::format(
      "# {}{}; an iteration lasts as long as its slowest rank, time is the median, ratio is {}'s "
      "time over this one\n",
      s.gpu ? fmt::format("on GPU {}, ", *s.gpu) : "",
      s.check ? "all results checked" : "results not checked", rival(s) == "mpi" ? "MPI" : "tutti");
  if (setup.hosts() > 1) {
    text += s.link_gbps > 0
                ? fmt::format("# bound: the busbw of links of {} Gbit/s that carry no byte twice\n",
                              s.link_gbps)
                : "# bound: not known; --link-gbps names what a host's link carries\n";
  } else if (!s.gpu && setup.ranks > 1) {
    text +=
        "# bound: the busbw if all ranks read their inputs and write their results once, as fast "
        "as they copy such buffers at once\n";
  }
  return text;
}

std::string columns(Operation op) {
  constexpr auto line =
      "#{:>11} {:>11} {:>5} {:>7} {:>5}  {:<12} {:>6} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>7} "
      "{:>6}\n";
  return fmt::format("#\n# {}\n", name(op)) +
         fmt::format(line, "size", "count", "type", "redop", "place", "impl", "iters", "time",
                     "min", "p99", "algbw", "busbw", "bound", "#wrong", "ratio") +
         fmt::format(line, "(B)", "(elements)", "", "", "", "", "", "(us)", "(us)", "(us)",
                     "(GB/s)", "(GB/s)", "(GB/s)", "", "");
}

std::string lines(const std::vector<Row>& rows, const Setup& setup) {
  const Settings& s = setup.settings;
  std::string text;
  for (const Row& row : rows) {
    const Bandwidth speed = bandwidth(row, setup);
    text += fmt::format(
        " {:>11} {:>11} {:>5} {:>7} {:>5}  {:<12} {:>6} {:>10.1f} {:>10.1f} {:>10.1f} {:>8.3f} "
        "{:>8.3f} {:>8} {:>7} {:>6}\n",
        bytes_of(row, s), row.count, name(s.dtype), reduction(row), row.how.in_place ? "in" : "out",
        label(row), row.iterations, row.times.p50, row.times.min, row.times.p99, speed.algorithm,
        speed.bus, speed.bound > 0 ? fmt::format("{:.3f}", speed.bound) : "-",
        s.check ? std::to_string(row.wrong) : "-", against(rival(s), row, rows));
  }
  return text;
}

namespace {

nlohmann::ordered_json object_of(const Row& row, const Setup& setup) {
  using nlohmann::ordered_json;
  const Settings& s = setup.settings;
  const Bandwidth speed = bandwidth(row, setup);
  return {{"impl", row.impl},
          {"version", row.version},
          {"build_type", build_type()},
          {"op", name(row.how.op)},
          {"redop", reduction(row)},
          {"dtype", name(s.dtype)},
          {"ranks", setup.ranks},
          {"hosts", setup.hosts()},
          {"bytes", bytes_of(row, s)},
          {"shared", row.shared},
          {"device", s.gpu ? fmt::format("gpu({})", *s.gpu) : "cpu"},
          {"wire", row.impl == "mpi" ? "none" : s.wire},
          {"in_place", row.how.in_place},
          {"iters", row.iterations},
          {"time_us",
           {{"min", row.times.min},
            {"p50", row.times.p50},
            {"p99", row.times.p99},
            {"max", row.times.max},
            {"avg", row.times.avg}}},
          {"algbw_GBps", speed.algorithm},
          {"busbw_GBps", speed.bus},
          {"bound_GBps", speed.bound > 0 ? ordered_json(speed.bound) : ordered_json()},
          {"wrong", s.check ? ordered_json(row.wrong) : ordered_json()}};
}

/// A field of a CSV file. A text with a comma or a quotation mark is quoted.
std::string cell(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  auto text = value.get<std::string>();
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string json(const std::vector<Row>& rows, const Setup& setup) {
  std::string text = "[";
  for (const Row& row : rows) {
    text += (text.size() == 1 ? "\n" : ",\n") + object_of(row, setup).dump();
  }
  return text + "\n]\n";
}

std::string csv(const std::vector<Row>& rows, const Setup& setup) {
  std::string names;
  std::string text;
  for (const Row& row : rows) {
    names.clear();
    std::string line;
    const auto add = [&](const std::string& field, const nlohmann::ordered_json& value) {
      const std::string comma = names.empty() ? "" : ",";
      names += comma + field;
      line += comma + cell(value);
    };
    const nlohmann::ordered_json object = object_of(row, setup);
    for (const auto& [field, value] : object.items()) {
      if (!value.is_object()) {
        add(field, value);
        continue;
      }
      for (const auto& [inner, part] : value.items()) add(field + "_" + inner, part);
    }
    text += line + "\n";
  }
  return names + "\n" + text;
}

Verdict judge(const std::vector<Row>& rows, const Setup& setup) {
  const Settings& s = setup.settings;
  const bool only_mpi = s.impls == std::vector<std::string>{"mpi"};
  Verdict verdict;
  std::uint64_t wrong = 0;
  std::map<std::string, std::vector<double>> busbw;
  for (const Row& row : rows) {
    wrong += row.wrong;
    busbw[label(row)].push_back(bandwidth(row, setup).bus);
  }
  for (const auto& [who, all] : busbw) {
    const double average =
        std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    verdict.text += fmt::format("# average busbw of {}: {:.3f} GB/s", who, average);
    if (average < s.min_busbw && (only_mpi || who != "mpi")) {
      verdict.passed = false;
      verdict.text += fmt::format(", less than --min-busbw {:g}", s.min_busbw);
    }
    verdict.text += "\n";
  }
  if (wrong > 0) {
    verdict.passed = false;
    verdict.text += fmt::format("# {} elements are wrong\n", wrong);
  }
  return verdict;
}

}  // namespace tutti::bench
