#include "benchmarks/training_step/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "benchmarks/build_type.h"
#include "benchmarks/training_step/bound.h"

namespace tutti::bench {
namespace {

/// The part of the bound's speed that a run should reach.
constexpr double target = 0.98;

std::string row(const char* name, const Times& times) {
  return fmt::format("{:<20} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, times.p50, times.p99,
                     times.min);
}

nlohmann::ordered_json object(const Times& times) {
  return {{"min", times.min},
          {"p50", times.p50},
          {"p99", times.p99},
          {"max", times.max},
          {"avg", times.avg}};
}

std::string on_off(bool on) {
  return on ? "on" : "off";
}

std::string fusion(const Options& options) {
  if (!options.fusion_bytes) return "as the store chooses";
  return fmt::format("up to {} bytes", *options.fusion_bytes);
}

std::string link(const StepReport& report) {
  const auto& rate = report.settings.link_gbps;
  return rate ? fmt::format("with {} Gbit/s to each of {} hosts", *rate, report.hosts)
              : std::string("at the speed of the communication alone");
}

/// The target holds for links of a known rate.
std::string verdict(const StepReport& report) {
  if (!report.settings.link_gbps) return {};
  return fmt::format(" (target {:.0f} %: {})", 100 * target,
                     *report.reached() >= target ? "pass" : "short");
}

nlohmann::ordered_json or_null(const std::optional<double>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

}  // namespace

double link_seconds_per_byte(const StepReport& report) {
  if (report.settings.link_gbps) return seconds_per_byte(*report.settings.link_gbps, report.hosts);
  return report.communication.p50 / 1e3 / report.bytes();
}

std::string head(const StepReport& report) {
  const StepSettings& s = report.settings;
  return fmt::format(
             "# training step of {} x {} with tutti {}: {} elements in {} tensors, {:.1f} MB on "
             "the wire, {} ranks on {} host{}\n",
             s.model, s.scale, version(), report.elements, report.tensors, report.bytes() / 1e6,
             report.ranks, report.hosts, report.hosts == 1 ? "" : "s") +
         build_type_line() +
         fmt::format(
             "# forward {} ms, backward {} ms ({}), priority {}, fusion {}, replay {}, "
             "wire {}; {} steps after {}, each as long as on its slowest rank\n",
             s.forward_ms, s.backward_ms, s.busy ? "busy" : "asleep", on_off(s.priority),
             fusion(report.options), on_off(report.options.replay), s.wire, s.steps, s.warmup) +
         fmt::format("# takes {:.0f} s of compute, and the time that the exchange adds\n",
                     s.compute_seconds());
}

std::string table(const StepReport& report) {
  std::string text = fmt::format("{:<20} {:>10} {:>10} {:>10}\n", "ms", "median", "p99", "min") +
                     row("step", report.step) + row("compute alone", report.compute) +
                     row("communication alone", report.communication);
  if (report.bound) {
    text +=
        fmt::format("{:<20} {:>10.2f}  {}\n", "bound", *report.bound, link(report)) +
        fmt::format("reached {:.1f} % of the bound{}, ", 100 * *report.reached(), verdict(report));
  } else {
    text += "no bound: all ranks are on one host, so no link holds a step up; ";
  }
  return text + fmt::format("{} messages to and from the coordinator, #wrong {}\n",
                            report.control_messages, report.wrong);
}

std::string json(const StepReport& report) {
  const StepSettings& s = report.settings;
  const nlohmann::ordered_json object_of_all{
      {"version", version()},
      {"build_type", build_type()},
      {"model", s.model},
      {"scale", s.scale},
      {"tensors", report.tensors},
      {"elements", report.elements},
      {"wire_bytes", report.bytes()},
      {"ranks", report.ranks},
      {"hosts", report.hosts},
      {"forward_ms", s.forward_ms},
      {"backward_ms", s.backward_ms},
      {"busy", s.busy},
      {"priority", s.priority},
      {"fusion_bytes", report.options.fusion_bytes
                           ? nlohmann::ordered_json(*report.options.fusion_bytes)
                           : nlohmann::ordered_json()},
      {"replay", report.options.replay},
      {"wire", s.wire},
      {"steps", s.steps},
      {"warmup", s.warmup},
      {"steps_alone", s.alone_steps().measured},
      {"store", s.store},
      {"steps_per_second", report.steps_per_second},
      {"step_ms", object(report.step)},
      {"compute_ms", object(report.compute)},
      {"communication_ms", object(report.communication)},
      {"link_gbps", or_null(s.link_gbps)},
      {"bound_ms", or_null(report.bound)},
      {"reached", or_null(report.reached())},
      {"target", target},
      {"control_messages", report.control_messages},
      {"wrong", report.wrong}};
  return object_of_all.dump(2) + "\n";
}

}  // namespace tutti::bench
