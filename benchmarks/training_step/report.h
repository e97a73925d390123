#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/allreduce/times.h"
#include "benchmarks/training_step/model.h"
#include "benchmarks/training_step/settings.h"
#include "tutti/options.h"

namespace tutti::bench {

/// The results of a run.
struct StepReport {
  StepSettings settings;
  Options options;  ///< that the store had
  std::size_t tensors = 0;
  std::size_t elements = 0;
  int ranks = 1;
  int hosts = 1;
  Times step{}, compute{}, communication{};  ///< milliseconds
  std::optional<double> bound{};             ///< milliseconds; none: no link holds steps up
  std::uint64_t wrong = 0;
  std::uint64_t control_messages = 0;      ///< of all measured steps
  std::vector<double> steps_per_second{};  ///< of each rank

  double bytes() const { return static_cast<double>(elements) * settings.wire_bytes(); }
  /// The part of the bound's speed that the steps reached. None without a bound.
  std::optional<double> reached() const {
    return bound ? std::optional(*bound / step.p50) : std::nullopt;
  }
};

/// The seconds of a link for each byte. They follow from the link that the settings name, or
/// otherwise from a measurement of the communication alone.
double link_seconds_per_byte(const StepReport& report);

/// The lines that are known before measuring.
std::string head(const StepReport& report);
/// The results, as text.
std::string table(const StepReport& report);
std::string json(const StepReport& report);

}  // namespace tutti::bench
