#pragma once
#include <sys/stat.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/mutex.h"
#include "runtime/session.h"
#include "runtime/world.h"

/// Ranks as threads of this process: they meet through memory and share the one mapping of each
/// memory file, so that ThreadSanitizer sees both sides of a race.
class ThreadWorld {
 public:
  explicit ThreadWorld(int size) : size_(size), words_(static_cast<std::size_t>(size)) {}

  tutti::runtime::World rank(int rank) {
    tutti::runtime::World world;
    world.rank = rank;
    world.size = size_;
    world.all_gather = [this, rank](std::string mine, const std::string& waiting_for) {
      return all_gather(rank, std::move(mine), waiting_for);
    };
    world.map = [this](const tutti::base::Fd& file, std::size_t bytes) { return map(file, bytes); };
    return world;
  }

 private:
  std::vector<std::string> all_gather(int rank, std::string mine, const std::string& waiting_for) {
    const auto deadline = tutti::base::Clock::now() + std::chrono::seconds(60);
    tutti::base::Lock lock(mutex_);
    const int round = round_;
    words_[static_cast<std::size_t>(rank)] = std::move(mine);
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      gathered_ = words_;
      changed_.notify_all();
    }
    while (round_ == round) {
      tutti::base::check(changed_.wait_until(lock, deadline) || round_ != round,
                         ("waiting for " + waiting_for).c_str());
    }
    return gathered_;
  }

  std::shared_ptr<tutti::base::Mapping> map(const tutti::base::Fd& file, std::size_t bytes) {
    struct stat status {};
    tutti::base::check(::fstat(file.get(), &status) == 0, "a memory file has an inode");
    const tutti::base::Lock lock(mutex_);
    auto& mapping = mappings_[status.st_ino];
    if (!mapping) mapping = tutti::base::map_file(file, bytes);
    return mapping;
  }

  const int size_;
  tutti::base::Mutex mutex_{8};
  tutti::base::CondVar changed_;
  int round_ TUTTI_GUARDED_BY(mutex_) = 0;
  int arrived_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> words_ TUTTI_GUARDED_BY(mutex_);
  std::vector<std::string> gathered_ TUTTI_GUARDED_BY(mutex_);
  std::map<ino_t, std::shared_ptr<tutti::base::Mapping>> mappings_ TUTTI_GUARDED_BY(mutex_);
};

/// Runs `body` with a session for each of `size` ranks and rethrows the first thing one throws.
/// `adapt` changes what a rank knows of its machine.
inline void with_sessions(int size, const tutti::Options& options,
                          const std::function<void(tutti::runtime::Session&)>& body,
                          const std::function<void(int, tutti::runtime::World&)>& adapt = {}) {
  ThreadWorld world(size);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> ranks;
  ranks.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        tutti::runtime::World own = world.rank(rank);
        if (adapt) adapt(rank, own);
        tutti::runtime::Session session(std::move(own), options);
        body(session);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}
