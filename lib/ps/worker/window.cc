#include "ps/worker/window.h"

#include <algorithm>
#include <limits>

namespace tutti::ps {

std::size_t Window::least_answered() const {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const Flow& flow : flows_) {
    if (flow.unanswered > 0) least = std::min(least, flow.answered);
  }
  return least;
}

bool Window::lets_through(std::size_t server) {
  const Flow& flow = flows_[server];
  const std::size_t from = std::min(flow.answered, least_answered());
  const bool lets = flow.answered + flow.unanswered - from < bytes_;
  holds_back_ = holds_back_ || !lets;
  return lets;
}

void Window::send(std::size_t server, std::size_t bytes, Time now) {
  if (bytes == 0) return;
  Flow& flow = flows_[server];
  if (unanswered_ == 0) {
    last_answer_ = now;
  } else if (flow.unanswered == 0) {
    flow.answered = std::max(flow.answered, least_answered());
  }
  flow.unanswered += bytes;
  unanswered_ += bytes;
}

void Window::answer(std::size_t server, std::size_t bytes, Time now) {
  if (bytes == 0) return;
  Flow& flow = flows_[server];
  flow.answered += bytes;
  flow.unanswered -= bytes;
  unanswered_ -= bytes;
  last_answer_ = now;
  holds_back_ = false;
  if (unanswered_ == 0) begin_anew();
}

/// The counts begin anew, because an old lead would hold back a server that has nothing under way.
/// The window narrows slowly. A width that was too narrow once, because workers differ, is likely
/// to be too narrow again, and a few small calls do not show that.
void Window::begin_anew() {
  const auto most = std::ranges::max_element(flows_, {}, &Flow::answered);
  const bool was_filled = most->answered >= bytes_ / 2;
  if (was_filled && !was_widened_) bytes_ = std::max(least_bytes, bytes_ / 2);
  if (was_filled) was_widened_ = false;
  for (Flow& flow : flows_) flow.answered = 0;
}

void Window::look(Time now) {
  if (!holds_back_ || now < last_answer_ + patience) return;
  bytes_ *= 2;
  was_widened_ = true;
  last_answer_ = now;
  holds_back_ = false;
}

std::optional<Window::Time> Window::due() const {
  if (!holds_back_) return std::nullopt;
  return last_answer_ + patience;
}

}  // namespace tutti::ps
