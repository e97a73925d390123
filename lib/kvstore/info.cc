#include "tutti/info.h"

#include "kvstore/build_config.h"
#include "kvstore/environment.h"
#include "reduce/reduce.h"
#include "tutti/version.h"

namespace tutti {

std::vector<Fact> build_info() {
  return {
      {"tutti", version()},
      {"compiler", TUTTI_COMPILER},
      {"build options", TUTTI_BUILD_OPTIONS},
      {"MPI", TUTTI_BUILT_WITH_MPI},
      {"parameter server", TUTTI_BUILT_WITH_PS},
      {"CUDA and NCCL", TUTTI_BUILT_WITH_CUDA},
      {"SIMD level", std::string(reduce::simd_level())},
  };
}

std::vector<Fact> describe(const Options& options) {
  std::vector<Fact> facts;
  for (const OptionVariable& variable : option_variables()) {
    facts.push_back({std::string(variable.name), variable.show(options)});
  }
  return facts;
}

}  // namespace tutti
