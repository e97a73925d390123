#include "python/info.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "tutti/info.h"

namespace tutti::python {
namespace {

namespace nb = nanobind;

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs pairs_of(const std::vector<Fact>& facts) {
  Pairs pairs;
  for (const Fact& fact : facts) pairs.emplace_back(fact.name, fact.value);
  return pairs;
}

}  // namespace

void bind_info(nb::module_& module) {
  module.def(
      "build_info", [] { return pairs_of(build_info()); },
      "How the library was built and what it found on this machine: pairs of name and value.");
  module.def(
      "gpu_info", [] { return pairs_of(gpu_info()); },
      "The CUDA driver, the GPUs and NCCL, or why there is none: pairs of name and value. "
      "Initialises CUDA.");
  module.def(
      "options_from_env", [] { return pairs_of(describe(Options::from_env())); },
      "Each variable that sets an option, and the option's value in the environment now.");
  module.def(
      "most_buffer_bytes",
      [](int ranks_per_node, int nodes) {
        return most_buffer_bytes(Options::from_env(), ranks_per_node, nodes);
      },
      nb::arg("ranks_per_node"), nb::arg("nodes") = 1,
      "The most bytes of buffers that a dist_sync_mpi store holds on one rank of such a job.");
}

}  // namespace tutti::python
