#include "optimizer/names.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "tutti/error.h"

namespace tutti::optimizer {

void check_name(std::string_view what, std::string_view name) {
  if (name.size() <= Key::max_bytes) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{} {}: such a name has at most {} bytes",
                                                       what, base::quoted(name), Key::max_bytes));
}

void check_name(const Key& key) {
  if (!key.is_integer()) check_name("key", key.string());
}

void check_names(const Optimizer& optimizer) {
  check_name("optimizer", optimizer.name);
  for (const auto& [name, value] : optimizer.parameters) check_name("parameter", name);
  for (const auto& [key, factors] : optimizer.factors) check_name(key);
}

}  // namespace tutti::optimizer
