#include "ps/server/server_post.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <variant>

#include "base/log.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

constexpr std::uint64_t link_token = 0;
constexpr std::uint64_t server_signal_token = 1;

}  // namespace

SchedulerLink& ServerPost::link() {
  if (!link_) link_.emplace(job_, options_, poller_, link_token);
  return *link_;
}

void ServerPost::watch_termination() {
  if (termination_) return;
  termination_.emplace();
  poller_.add(termination_->descriptor(), server_signal_token);
}

void ServerPost::check_terminated() {
  const bool was_ended = termination_ && termination_->take();
  // If the job is over, it has ended well, and this process ends, too.
  if (was_ended && !is_closed_) throw Error(ErrorCode::aborted, "it was ended by SIGTERM");
}

void ServerPost::leave(const std::string& reason) noexcept {
  if (!link_ || is_closed_) return;
  try {
    link_->send(Stopping{reason});
    link_->close();
  } catch (const std::exception& error) {
    base::log().debug("the scheduler was not told: {}", error.what());
  }
}

void ServerPost::hear() {
  if (is_closed_) return check_terminated();
  link_->receive([](const FromScheduler& message) {
    if (const auto* const refused = std::get_if<Refused>(&message)) {
      throw_failure(refused->failure);
    }
    const auto* const lost = std::get_if<Lost>(&message);
    if (lost != nullptr && lost->role == Role::scheduler) throw_failure(failure_of(*lost));
  });
  is_closed_ = link_->is_over();
  if (is_closed_) link_->close();
  check_terminated();
}

bool ServerPost::waits_for_another() {
  for (;;) {
    hear();
    if (is_closed_) return false;
    if (link_->takes_another()) return true;
    link_->beat();
    link_->flush();
    const auto beat = link_->next_beat();
    poller_.wait(std::min(beat, link_->due().value_or(beat)));
  }
}

}  // namespace tutti::ps
