// Times training steps with simulated computing and the gradients of real networks. See --help.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "benchmarks/training_step/bound.h"
#include "benchmarks/training_step/rehearsal.h"
#include "benchmarks/training_step/report.h"
#include "benchmarks/training_step/settings.h"
#include "examples/command_line/command_line.h"
#include "tutti/tutti.h"

namespace {

using namespace tutti::bench;

Times in_milliseconds(std::vector<double> seconds) {
  for (double& time : seconds) time *= 1e3;
  return summarise(std::move(seconds));
}

StepReport describe(const StepSettings& settings, const Model& model, tutti::KVStore& store) {
  return {.settings = settings,
          .options = settings.options(),
          .tensors = tensor_count(model),
          .elements = element_count(model),
          .ranks = store.num_workers(),
          .hosts = static_cast<int>(store.counters().nodes)};
}

void measure(const Model& model, tutti::KVStore& store, StepReport& report) {
  Rehearsal rehearsal(store, model, report.settings);
  report.compute = in_milliseconds(rehearsal.compute_alone());
  report.step = in_milliseconds(rehearsal.steps());
  report.steps_per_second = rehearsal.steps_per_second();
  report.communication = in_milliseconds(rehearsal.communication_alone());
  if (report.hosts > 1) {
    // The step waits for the rank whose compute takes longest.
    report.bound =
        1e3 * rehearsal.largest(step_bound(rehearsal.costs(), link_seconds_per_byte(report)));
  }
  report.control_messages = rehearsal.control_messages();
  report.wrong = rehearsal.wrong();
}

void save(const std::string& file, const std::string& text) {
  std::ofstream stream(file);
  if (!(stream << text << std::flush)) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument, "cannot write " + file);
  }
}

void show(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

/// Returns the program's exit status.
int run(const StepSettings& settings) {
  const auto store = tutti::KVStore::create(settings.store, settings.options());
  if (settings.wire != "none") store->set_gradient_compression(settings.wire);
  const bool speaks = store->rank() == 0;
  const Model model = make_model(settings.model, settings.scale);
  StepReport report = describe(settings, model, *store);
  const std::string wrong = settings.what_is_wrong_with_hosts(report.hosts);
  if (!wrong.empty()) {
    if (speaks) fmt::print(stderr, "training_step: {}\n", wrong);
    return command_line::usage_error;
  }
  // The file is checked before minutes of measuring.
  if (speaks && !settings.json.empty()) save(settings.json, "");
  if (speaks) show(head(report));
  measure(model, *store, report);
  if (speaks) {
    show(table(report));
    if (!settings.json.empty()) save(settings.json, json(report));
  }
  return report.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto settings = parse_step(argc, argv);
    return settings ? run(*settings) : 0;
  } catch (const tutti::Error& error) {
    return command_line::complain("training_step", error,
                                  fmt::format("{}: {}", tutti::name(error.code()), error.what()));
  } catch (const std::exception& error) {
    fmt::print(stderr, "training_step: {}\n", error.what());
  }
  return 1;
}
