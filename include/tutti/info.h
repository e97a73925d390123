#pragma once
#include <string>
#include <vector>

#include "tutti/export.h"
#include "tutti/options.h"

namespace tutti {

struct Fact {
  std::string name;
  std::string value;
};

/// What this library is made of and what it found on this machine: version, compiler, build
/// options, parts, instruction set. For people and for bug reports; initialises nothing.
TUTTI_EXPORT std::vector<Fact> build_info();

/// Each variable that sets an option, and the option's value as the variable would say it:
/// {"TUTTI_PART_BYTES", "4M"}.
TUTTI_EXPORT std::vector<Fact> describe(const Options& options);

}  // namespace tutti
