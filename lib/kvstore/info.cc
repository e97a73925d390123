#include "tutti/info.h"

#include <fmt/format.h>

#include <string>
#include <thread>

#include "base/host.h"
#include "cuda/facts.h"
#include "kvstore/build_config.h"
#include "kvstore/environment.h"
#include "reduce/reduce.h"
#include "runtime/footprint.h"
#include "runtime/mpi_facts.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace tutti {

std::vector<Fact> build_info() {
  std::vector<Fact> facts{
      {"tutti", version()},
      {"compiler", TUTTI_COMPILER},
      {"build type", build_type()},
      {"build options", TUTTI_BUILD_OPTIONS},
      {"parameter server", TUTTI_BUILT_WITH_PS},
      {"CUDA and NCCL", TUTTI_BUILT_WITH_CUDA},
      {"SIMD level", std::string(reduce::simd_level())},
      {"host", base::host_name()},
      {"processor", base::processor_name()},
      // The processors that the affinity of this process allows.
      {"usable processors", std::to_string(std::thread::hardware_concurrency())},
  };
  for (const auto& [name, value] : runtime::mpi_facts()) facts.push_back({name, value});
  return facts;
}

std::vector<Fact> gpu_info() {
  return cuda::facts();
}

std::uint64_t most_buffer_bytes(const Options& options, int ranks_per_node, int nodes) {
  constexpr int most = 1 << 16;
  constexpr std::int64_t most_ranks = 1 << 20;
  const bool in_range = ranks_per_node >= 1 && ranks_per_node <= most && nodes >= 1 &&
                        nodes <= most && std::int64_t{ranks_per_node} * nodes <= most_ranks;
  if (!in_range) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("most_buffer_bytes for {} ranks on each of {} nodes: both numbers "
                            "must be 1 to {}, and their product at most {}",
                            ranks_per_node, nodes, most, most_ranks));
  }
  return runtime::most_buffer_bytes(options, ranks_per_node, nodes);
}

std::vector<Fact> describe(const Options& options) {
  std::vector<Fact> facts;
  for (const OptionVariable& variable : option_variables()) {
    if (variable.name.empty()) continue;
    facts.push_back({std::string(variable.name), variable.show(options)});
  }
  return facts;
}

}  // namespace tutti
