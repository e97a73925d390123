#include "observe/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::observe {

std::string FlightRecorder::dump(std::size_t most) const {
  const auto now = base::Clock::now();
  std::string text;
  for (std::size_t i = next_ - std::min({next_, capacity, most}); i < next_; ++i) {
    const Event& event = events_[i % capacity];
    const std::chrono::duration<double, std::milli> age = now - event.when;
    text += fmt::format("{}{:.3f} ms ago: {} {} {}", text.empty() ? "" : ", ", age.count(),
                        event.event, event.a, event.b);
  }
  return text;
}

}  // namespace tutti::observe
