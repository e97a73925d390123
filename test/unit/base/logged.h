#pragma once
#include <spdlog/sinks/ringbuffer_sink.h>

#include <memory>
#include <string>

#include "base/log.h"

/// Keeps the lines that are logged while it lives. It is made and destroyed while nobody logs. Any
/// thread may read it.
class Logged {
 public:
  Logged() { tutti::base::log().sinks().push_back(sink_); }
  ~Logged() { tutti::base::log().sinks().pop_back(); }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  std::string text() const {
    std::string all;
    for (const std::string& line : sink_->last_formatted()) all += line;
    return all;
  }

 private:
  static constexpr std::size_t lines = 100;
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> sink_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(lines);
};
