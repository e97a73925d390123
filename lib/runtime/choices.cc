#include "runtime/choices.h"

#include <fmt/format.h>

#include "base/names.h"
#include "reduce/reduce.h"
#include "runtime/executor.h"
#include "runtime/waiter.h"

namespace tutti::runtime {

std::vector<Choice> choices_of(const topology::Topology& topology,
                               const collective::Machine& machine, const collective::Tuning& tuning,
                               const coordinator::Settings& protocol, const Options& options,
                               bool any_thread) {
  const bool several = topology.node_count() > 1;
  const std::string ranks = fmt::format("job: {} rank{} on {} processors", topology.local_size(),
                                        topology.local_size() > 1 ? "s" : "", machine.processors);
  const std::string nodes =
      fmt::format("job: {} node{}", topology.node_count(), several ? "s" : "");
  const std::string mover = !any_thread ? "tutti-exec"
                            : several   ? fmt::format("the waiting thread up to {}, or tutti-exec",
                                                      base::bytes_text(Executor::worth_driving))
                                        : "the waiting thread, or tutti-exec";
  std::vector<Choice> choices{
      {"slice size", base::bytes_text(tuning.slice_bytes),
       options.slice_bytes != 0 ? ""
       : several                ? nodes
                                : ranks},
      {"chunks under way", fmt::format("{}", tuning.slots), "always"},
      {"eager limit", base::bytes_text(tuning.eager_bytes), several ? nodes : ranks},
      {"shared cache", base::bytes_text(tuning.cache_bytes), "machine"},
      {"SIMD level", std::string(reduce::simd_level()), "machine"},
      {"waiting", Waiter::policy(machine.crowded(topology)), ranks},
      {"data is moved by", mover, any_thread ? nodes : nodes + ", and the level of MPI"},
  };
  if (!several) {
    choices.push_back(
        {"small sums", tuning.sums_together ? "by whoever runs" : "by every rank", ranks});
  }
  if (tuning.half_bytes > 0) {
    choices.push_back({"sums by halves",
                       tuning.sums_together
                           ? fmt::format("above {}", base::bytes_text(tuning.eager_bytes))
                           : fmt::format("from {} on", base::bytes_text(tuning.halves_from)),
                       ranks});
  }
  if (!options.fusion_bytes) {
    choices.push_back({"fusion threshold", base::bytes_text(protocol.host.fusion_bytes), nodes});
  }
  if (!options.part_bytes) {
    choices.push_back({"part size", base::bytes_text(protocol.host.part_bytes), nodes});
  }
  return choices;
}

}  // namespace tutti::runtime
