#include "benchmarks/training_step/settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <vector>

#include "base/printable.h"
#include "benchmarks/training_step/model.h"
#include "examples/command_line/command_line.h"
#include "tutti/error.h"

namespace tutti::bench {
namespace {

using command_line::between;
using command_line::one_of;

constexpr const char* footer =
    "Of a step, forward begins a layer when its weights are there, and backward sends off its\n"
    "gradients when it ends the layer. The bound is what a link without latency that always\n"
    "carries the most urgent gradient would allow.\n\n"
    "example:\n"
    "  mpirun -n 4 training_step --model resnet50 --scale 0.1 --compute-ms 200\n"
    "  scripts/lab up 4 --rate 1gbit\n"
    "  scripts/lab run training_step --link-gbps 0.94 --hosts 4";

/// CLI::Range lets NaN pass.
CLI::Validator above_zero(double most) {
  const auto wrong = [most](const std::string& text) {
    double value = 0;
    const bool right = CLI::detail::lexical_cast(text, value) && value > 0 && value <= most;
    return right ? std::string()
                 : fmt::format("{} is not above 0 and at most {}", base::quoted(text), most);
  };
  return {wrong, "", "above_zero"};
}

void add_switch(CLI::App& app, const std::string& option, const std::string& what,
                const std::function<void(bool)>& set) {
  app.add_option_function<std::string>(
         option, [set](const std::string& word) { set(word == "on"); }, what)
      ->check(one_of({"on", "off"}).description(""))
      ->type_name("on|off");
}

void declare_work(CLI::App& app, StepSettings& s) {
  constexpr double hour = 3.6e6;
  const auto models = model_names();
  app.add_option("--model", s.model,
                 "the model that gives the sizes of the gradients: vgg16 or resnet50, for ImageNet")
      ->check(one_of(std::vector<std::string>(models.begin(), models.end())).description(""))
      ->capture_default_str();
  app.add_option("--scale", s.scale,
                 "the factor by which each tensor's elements are multiplied, such as 0.1")
      ->check(above_zero(10))
      ->capture_default_str();
  app.add_option("--compute-ms", s.backward_ms,
                 "the time of a backward pass, which is spread over the layers in proportion to "
                 "their work")
      ->check(above_zero(hour))
      ->capture_default_str();
  app.add_option("--forward-ms", s.forward_ms,
                 "the time of a forward pass (default: half of --compute-ms)")
      ->check(above_zero(hour));
  app.add_flag("--busy", s.busy,
               "compute during these times; without it the program sleeps, as if an accelerator "
               "computed");
  app.add_option("--steps", s.steps, "the number of steps of each kind that are measured")
      ->check(between(1, 1e6).description(""))
      ->capture_default_str();
  app.add_option("--warmup", s.warmup,
                 "the number of steps before them; the program checks the sums of the first one")
      ->check(between(1, 1e6).description(""))
      ->capture_default_str();
  app.add_option("--alone", s.alone,
                 "the number of steps of compute alone, and of communication alone, without "
                 "others before them (default: --steps after --warmup)")
      ->check(between(1, 1e6).description(""));
}

void declare_store(CLI::App& app, StepSettings& s) {
  add_switch(app, "--priority", "let layers nearer to the input go first (default: on)",
             [&s](bool on) { s.priority = on; });
  add_switch(app, "--replay", "repeat batches without asking the coordinator",
             [&s](bool on) { s.replay = on; });
  app.add_option("--fusion-bytes", s.fusion_bytes,
                 "tensors of up to this size in all travel as one")
      ->transform(command_line::size())
      ->type_name("SIZE");
  app.add_option("--wire", s.wire, "the format in which gradients travel: none (f32), fp16 or bf16")
      ->check(one_of({"none", "fp16", "bf16"}).description(""))
      ->capture_default_str();
  app.add_option("--kv-store,--kvstore", s.store, "the type of the store")->capture_default_str();
  app.add_option("--optimizer", s.optimizer,
                 "the optimizer by which the servers update, with a learning rate of 1: sgd; "
                 "without it sums come back (dist_async needs one)")
      ->check(one_of({"sgd"}).description(""));
}

void declare_report(CLI::App& app, StepSettings& s) {
  app.add_option("--link-gbps", s.link_gbps,
                 "the payload that a host's link carries, in Gbit/s, from which the bound "
                 "follows; without it, the bound follows from the rate of the communication alone")
      ->check(above_zero(1e6));
  app.add_option("--hosts", s.hosts,
                 "the number of hosts on which the ranks must be; another number is an error "
                 "(default: any number)")
      ->check(between(1, 1e6).description(""));
  app.add_option("--json", s.json, "write the numbers to this file");
}

}  // namespace

std::string StepSettings::what_is_wrong_with_hosts(int found) const {
  constexpr const char* way = "scripts/lab emulates several hosts on one machine";
  if (hosts > 0 && hosts != found) {
    return fmt::format("--hosts {}, but the ranks are on {}; {}", hosts, found, way);
  }
  if (link_gbps && found == 1) {
    return fmt::format("--link-gbps {} describes links between hosts, but all ranks are on 1; {}",
                       *link_gbps, way);
  }
  return {};
}

double StepSettings::compute_seconds() const {
  const int overlapped = whole_steps().warmup + whole_steps().measured;
  const int unaccompanied = alone_steps().warmup + alone_steps().measured;
  return (overlapped + unaccompanied) * (forward_ms + backward_ms) / 1e3;
}

Options StepSettings::options() const {
  Options options = Options::from_env();
  if (fusion_bytes) options.fusion_bytes = *fusion_bytes;
  if (replay) options.replay = *replay;
  return options;
}

std::optional<StepSettings> parse_step(int argc, const char* const* argv) {
  StepSettings settings;
  CLI::App app(
      "Times training steps with the gradients of real models and a pause in place of "
      "their compute.",
      "training_step");
  app.footer(footer);
  declare_work(app, settings);
  declare_store(app, settings);
  declare_report(app, settings);
  try {
    command_line::parse(app, argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::invalid_argument, error.what());
  }
  if (app.count("--forward-ms") == 0) settings.forward_ms = settings.backward_ms / 2;
  return settings;
}

}  // namespace tutti::bench
