// A server's process: one store after another.
#include <algorithm>
#include <memory>

#include "ps/roles.h"
#include "ps/server.h"

namespace tutti::ps {
namespace {

constexpr std::uint64_t link_token = 0;
constexpr std::uint64_t end_token = 1;

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

/// False: there is no store any more.
bool serve(const Job& job, const Options& options, const Durability& durability, ServerPost& post) {
  const auto server = joined(job, options, durability, post);
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
  // A large state takes its time to write, and to read again.
  post.link().beat_apart();
  server->end(std::nullopt);
  return true;
}

}  // namespace

SchedulerLink& ServerPost::link() {
  if (!link_) link_.emplace(job_, options_, poller_, link_token);
  return *link_;
}

void ServerPost::leave(const std::string& reason) {
  if (!link_) return;
  link_->send(Stopping{reason});
  link_->close();
}

void ServerPost::hear() {
  if (is_closed_) return;
  link_->receive([](const FromScheduler& message) {
    if (const auto* const refused = std::get_if<Refused>(&message)) {
      throw_failure(refused->failure);
    }
    const auto* const lost = std::get_if<Lost>(&message);
    if (lost != nullptr && lost->role == Role::scheduler) throw_failure(failure_of(*lost));
  });
  if (!link_->is_over()) return;
  is_closed_ = true;
  link_->close();
}

bool ServerPost::waits_for_another() {
  Termination termination;
  poller_.add(termination.descriptor(), end_token);
  for (;;) {
    hear();
    if (is_closed_) return false;
    if (link_->takes_another()) return true;
    link_->beat();
    link_->flush();
    const auto beat = link_->next_beat();
    poller_.wait(std::min(beat, link_->due().value_or(beat)));
    if (termination.take()) {
      const Error ended(ErrorCode::aborted, "it was ended by SIGTERM");
      leave(ended.what());
      throw ended;
    }
  }
}

void run_server(const Job& job, const Options& options, const Durability& durability) {
  ServerPost post(job, options);
  while (serve(job, options, durability, post) && post.waits_for_another()) continue;
}

}  // namespace tutti::ps
