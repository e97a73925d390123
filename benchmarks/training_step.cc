// Times training steps with made-up compute and real networks' gradients. See --help.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "benchmarks/training_step/bound.h"
#include "benchmarks/training_step/rehearsal.h"
#include "benchmarks/training_step/report.h"
#include "benchmarks/training_step/settings.h"
#include "tutti/tutti.h"

namespace {

using namespace tutti::bench;

Times in_milliseconds(std::vector<double> seconds) {
  for (double& time : seconds) time *= 1e3;
  return summarise(std::move(seconds));
}

StepReport measure(const StepSettings& settings, tutti::KVStore& store) {
  const Model model = make_model(settings.model, settings.scale);
  StepReport report{.settings = settings,
                    .options = settings.options(),
                    .tensors = tensor_count(model),
                    .elements = element_count(model),
                    .ranks = store.num_workers(),
                    .hosts = settings.linked_hosts(static_cast<int>(store.counters().nodes))};
  Rehearsal rehearsal(store, model, settings);
  report.compute = in_milliseconds(rehearsal.compute_alone());
  report.step = in_milliseconds(rehearsal.steps());
  report.communication = in_milliseconds(rehearsal.communication_alone());
  // The step waits for the rank whose compute takes longest.
  report.bound =
      1e3 * rehearsal.largest(step_bound(rehearsal.costs(), link_seconds_per_byte(report)));
  report.control_messages = rehearsal.control_messages();
  report.wrong = rehearsal.wrong();
  return report;
}

void save(const std::string& file, const std::string& text) {
  std::ofstream stream(file);
  if (!(stream << text << std::flush)) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument, "cannot write " + file);
  }
}

/// Returns the program's exit status.
int run(const StepSettings& settings) {
  const auto store = tutti::KVStore::create(settings.store, settings.options());
  if (settings.wire != "none") store->set_gradient_compression(settings.wire);
  const bool speaks = store->rank() == 0;
  // Asked before minutes of measuring.
  if (speaks && !settings.json.empty()) save(settings.json, "");
  const StepReport report = measure(settings, *store);
  if (speaks) {
    fmt::print("{}", table(report));
    std::fflush(stdout);
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
    fmt::print(stderr, "training_step: {}: {}\n", tutti::name(error.code()), error.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "training_step: {}\n", error.what());
  }
  return 1;
}
