#include "benchmarks/allreduce/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "benchmarks/build_type.h"

namespace tutti::bench {
namespace {

std::size_t bytes_of(const Row& row, const Settings& settings) {
  return row.count * size_of(settings.dtype);
}

std::string label(const Row& row) {
  return row.impl + (row.shared ? " shared" : "");
}

std::string_view reduction(const Settings& settings) {
  return reduces(settings.op) ? "sum" : "none";
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

Bandwidth bandwidth(const Row& row, const Settings& settings, int ranks) {
  const double algorithm = static_cast<double>(bytes_of(row, settings)) / row.times.p50 / 1e3;
  const double half = static_cast<double>(ranks - 1) / ranks;
  const double factor = settings.op == Operation::allreduce ? 2 * half
                        : is_half(settings.op)              ? half
                                                            : 1;
  return {algorithm, algorithm * factor};
}

std::string head(const Setup& setup) {
  const Settings& s = setup.settings;
  std::string text = fmt::format("# {} with tutti {}, {} rank{} on {} host{}: {}\n", name(s.op),
                                 version(), setup.ranks, setup.ranks == 1 ? "" : "s", setup.hosts,
                                 setup.hosts == 1 ? "" : "s", setup.mapping);
  text += build_type_line();
  for (const std::string& fact : setup.facts) text += "# " + fact + "\n";
  text += fmt::format(
      "# {}, {}{}; an iteration lasts as long as its slowest rank, time is the median, ratio is "
      "{}'s time over this one\n#\n",
      s.in_place || s.op == Operation::broadcast ? "in place" : "out of place",
      s.gpu ? fmt::format("on GPU {}, ", *s.gpu) : "",
      s.check ? "all results checked" : "results not checked", rival(s) == "mpi" ? "MPI" : "tutti");
  text += fmt::format(
      "#{:>11} {:>11} {:>5} {:>5}  {:<12} {:>6} {:>10} {:>10} {:>10} {:>8} {:>8} {:>7} {:>6}\n",
      "size", "count", "type", "redop", "impl", "iters", "time", "min", "p99", "algbw", "busbw",
      "#wrong", "ratio");
  text += fmt::format(
      "#{:>11} {:>11} {:>5} {:>5}  {:<12} {:>6} {:>10} {:>10} {:>10} {:>8} {:>8} {:>7} {:>6}\n",
      "(B)", "(elements)", "", "", "", "", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "", "");
  return text;
}

std::string lines(const std::vector<Row>& rows, const Setup& setup) {
  const Settings& s = setup.settings;
  std::string text;
  for (const Row& row : rows) {
    const Bandwidth speed = bandwidth(row, s, setup.ranks);
    text += fmt::format(
        " {:>11} {:>11} {:>5} {:>5}  {:<12} {:>6} {:>10.1f} {:>10.1f} {:>10.1f} {:>8.3f} {:>8.3f} "
        "{:>7} {:>6}\n",
        bytes_of(row, s), row.count, name(s.dtype), reduction(s), label(row), row.iterations,
        row.times.p50, row.times.min, row.times.p99, speed.algorithm, speed.bus,
        s.check ? std::to_string(row.wrong) : "-", against(rival(s), row, rows));
  }
  return text;
}

std::string json(const std::vector<Row>& rows, const Setup& setup) {
  const Settings& s = setup.settings;
  std::string text = "[";
  for (const Row& row : rows) {
    const Bandwidth speed = bandwidth(row, s, setup.ranks);
    const nlohmann::ordered_json object{
        {"impl", row.impl},
        {"version", row.version},
        {"build_type", build_type()},
        {"op", name(s.op)},
        {"dtype", name(s.dtype)},
        {"ranks", setup.ranks},
        {"hosts", setup.hosts},
        {"bytes", bytes_of(row, s)},
        {"shared", row.shared},
        {"device", s.gpu ? fmt::format("gpu({})", *s.gpu) : "cpu"},
        {"wire", row.impl == "mpi" ? "none" : s.wire},
        {"in_place", s.in_place || s.op == Operation::broadcast},
        {"iters", row.iterations},
        {"time_us",
         {{"min", row.times.min},
          {"p50", row.times.p50},
          {"p99", row.times.p99},
          {"max", row.times.max},
          {"avg", row.times.avg}}},
        {"algbw_GBps", speed.algorithm},
        {"busbw_GBps", speed.bus},
        {"wrong", s.check ? nlohmann::ordered_json(row.wrong) : nlohmann::ordered_json()}};
    text += (text.size() == 1 ? "\n" : ",\n") + object.dump();
  }
  return text + "\n]\n";
}

}  // namespace tutti::bench
