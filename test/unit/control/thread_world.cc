#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "net/secret.h"
#include "worlds.h"

namespace tutti::control::test {

std::string some_secret() {
  std::string secret(net::secret_bytes, 's');
  const net::Nonce random = net::random_nonce();
  for (std::size_t i = 0; i < random.size(); ++i) secret[i] = std::to_integer<char>(random[i]);
  return secret;
}

void Echo::receive(int from, net::ConstBytes message) {
  const bool to_all = net::as_text(message).starts_with('a');
  answers_.push_back({to_all ? everyone : from, net::Bytes(message.begin(), message.end())});
}

AllGather ThreadGather::of(int rank) {
  return [this, rank](std::string mine) { return meet(rank, std::move(mine)); };
}

std::vector<std::string> ThreadGather::meet(int rank, std::string mine) {
  base::Lock lock(mutex_);
  const int round = round_;
  said_[static_cast<std::size_t>(rank)] = std::move(mine);
  if (++here_ == said_.size()) {
    here_ = 0;
    ++round_;
    last_ = said_;
    changed_.notify_all();
  }
  const auto deadline = base::Clock::now() + 2 * patience;
  while (round_ == round) {
    if (!changed_.wait_until(lock, deadline)) throw std::runtime_error("a gather hangs");
  }
  return last_;
}

void run_ranks(int size, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

namespace {

/// Gives every file one mapping, however often it is asked.
class OneMapping {
 public:
  std::shared_ptr<base::Mapping> operator()(const base::Fd& file, std::size_t bytes) {
    struct stat status {};
    ::fstat(file.get(), &status);
    const base::Lock lock(mutex_);
    std::shared_ptr<base::Mapping>& known = known_[status.st_ino];
    if (!known) known = std::make_shared<base::Mapping>(file, bytes);
    return known;
  }

 private:
  base::Mutex mutex_{8};
  std::map<ino_t, std::shared_ptr<base::Mapping>> known_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace

Planes open_world(const WorldOptions& options) {
  const int size = static_cast<int>(options.nodes.size());
  Planes planes(options.nodes.size());
  ThreadGather gather(size);
  OneMapping one_mapping;
  run_ranks(size, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    ControlSettings settings = options.settings;
    settings.node_label = options.nodes[at];
    settings.map = std::ref(one_mapping);
    const AllGather spied_on = [&, real = gather.of(rank)](std::string mine) {
      auto all = real(std::move(mine));
      options.after_gather(rank, all);
      return all;
    };
    planes[at] = ControlPlane::open(rank, size, spied_on, settings,
                                    [&](const auto&) { return options.responder(); });
  });
  return planes;
}

bool close_world(Planes& planes) {
  for (const auto& plane : planes) plane->announce_departed();
  bool free_to_go = true;
  // Rank 0 last, as in a real session.
  for (auto plane = planes.rbegin(); plane != planes.rend(); ++plane) {
    free_to_go = (*plane)->wait_for_followers(base::Clock::now() + patience).empty() && free_to_go;
  }
  run_ranks(static_cast<int>(planes.size()),
            [&](int rank) { planes[static_cast<std::size_t>(rank)].reset(); });
  return free_to_go;
}

namespace {

base::Doorbell& bell_of(const ControlPlane& plane) {
  return *plane.doorbells()[static_cast<std::size_t>(plane.topology().local_index())];
}

}  // namespace

std::string hear(ControlPlane& plane) {
  const auto deadline = base::Clock::now() + patience;
  net::Bytes message;
  for (;;) {
    const auto ticket = bell_of(plane).ticket();
    if (plane.receive(message)) return std::string(net::as_text(message));
    if (!bell_of(plane).wait(ticket, deadline)) return "";
  }
}

FailedRank await_loss(ControlPlane& plane, base::Clock::duration limit) {
  const auto deadline = base::Clock::now() + limit;
  for (;;) {
    const auto ticket = bell_of(plane).ticket();
    if (const auto lost = plane.lost_rank()) return *lost;
    if (!bell_of(plane).wait(ticket, deadline)) return {};
  }
}

}  // namespace tutti::control::test
