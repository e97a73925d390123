#include "tutti/info.h"

#include "kvstore/build_config.h"
#include "kvstore/environment.h"
#include "reduce/reduce.h"
#include "runtime/mpi_facts.h"
#include "tutti/version.h"

namespace tutti {

std::vector<Fact> build_info() {
  std::vector<Fact> facts{
      {"tutti", version()},
      {"compiler", TUTTI_COMPILER},
      {"build options", TUTTI_BUILD_OPTIONS},
      {"parameter server", TUTTI_BUILT_WITH_PS},
      {"CUDA and NCCL", TUTTI_BUILT_WITH_CUDA},
      {"SIMD level", std::string(reduce::simd_level())},
  };
  for (const auto& [name, value] : runtime::mpi_facts()) facts.push_back({name, value});
  return facts;
}

std::vector<Fact> describe(const Options& options) {
  std::vector<Fact> facts;
  for (const OptionVariable& variable : option_variables()) {
    facts.push_back({std::string(variable.name), variable.show(options)});
  }
  return facts;
}

}  // namespace tutti
