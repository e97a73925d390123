// A server's process: one store after another.
#include <algorithm>
#include <exception>
#include <memory>

#include "base/heap.h"
#include "base/log.h"
#include "ps/roles.h"
#include "ps/server.h"

namespace tutti::ps {
namespace {

constexpr std::uint64_t link_token = 0;
constexpr std::uint64_t server_signal_token = 1;

/// None: all workers have ended, and none waits for this server.
std::unique_ptr<Server> joined(const Job& job, const Options& options, const Durability& durability,
                               ServerPost& post) {
  try {
    return std::make_unique<Server>(job, options, durability, post);
  } catch (const Error& error) {
    if (post.is_over()) return nullptr;
    post.leave(error.what());
    throw;
  }
}

/// One store, and the time until workers create another. False: all of them have ended.
bool serve(const Job& job, const Options& options, const Durability& durability, ServerPost& post) {
  auto server = joined(job, options, durability, post);
  if (!server) return false;
  try {
    server->run();
  } catch (const Error& error) {
    server->end(error.what());
    throw;
  } catch (const std::exception& error) {
    // Such as too little memory, in the middle of anything: that is no state to leave behind.
    server->leave(error.what());
    throw;
  }
  try {
    // A large state takes its time to write, and to read again.
    post.link().beat_apart();
    server->end(std::nullopt);
    const std::size_t keys = server->keys();
    server.reset();
    base::return_memory_of(keys);
    return post.waits_for_another();
  } catch (const std::exception& error) {
    post.leave(error.what());
    throw;
  }
}

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
  // A job that is over ends well, and this process with it.
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

void run_server(const Job& job, const Options& options, const Durability& durability) {
  ServerPost post(job, options);
  while (serve(job, options, durability, post)) continue;
}

}  // namespace tutti::ps
