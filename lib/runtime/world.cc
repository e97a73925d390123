#include "runtime/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "base/log.h"
#include "base/mutex.h"
#include "control/presence.h"
#include "mpi/library.h"
#include "net/end_notices.h"
#include "runtime/creating.h"
#include "runtime/failure_detector.h"
#include "runtime/meeting.h"
#include "runtime/mpi_watch.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

/// Ranks that create stores together: all of MPI_COMM_WORLD, or a group of them.
struct Circle {
  base::Mutex mutex{1};  ///< held by the thread that creates a store over these ranks
  std::unique_ptr<mpi::Communicator> communicator TUTTI_GUARDED_BY(mutex);
  int attempts TUTTI_GUARDED_BY(mutex) = 0;  ///< the number of attempts to create a store
  int stores TUTTI_GUARDED_BY(mutex) = 0;
};

/// The objects that exist once in a process: MPI, and the means by which stores are created.
struct Process {
  base::Mutex mutex{1};  ///< while MPI starts
  std::unique_ptr<control::Presence> presence TUTTI_GUARDED_BY(mutex);
  std::map<std::vector<int>, Circle> circles TUTTI_GUARDED_BY(mutex);  ///< {}: all ranks
};

Process& process() {
  // The object is never destroyed, because an exit handler may finalise MPI.
  static auto* const only = new Process;
  return *only;
}

/// A key that stands in place of a store's ranks: under it the threads that start MPI take turns.
const std::vector<int>& starting() {
  static const std::vector<int> none = {-1};
  return none;
}

std::string short_name(const std::string& text) {
  std::array<unsigned char, 16> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  return fmt::format("{:02x}", fmt::join(hash, ""));
}

/// The means by which a process that creates a store sees the other processes. Empty if no launcher
/// of MPI is known.
struct Sight {
  control::Presence* presence = nullptr;
  std::shared_ptr<FailureDetector> ends;
};

net::EndNotices notices_for(const mpi::Launched& launched) {
  const char* const address = std::getenv(net::EndNotices::variable);
  return {address == nullptr ? "" : address, launched.name_space};
}

/// Called before MPI is up, so that this process sees it if a rank ends even then.
Sight start(Process& here, const Options& options) TUTTI_REQUIRES(here.mutex) {
  Sight sight;
  mpi::StartSettings settings;
  settings.interface = options.interface;
  const auto launched = mpi::launched();
  if (launched) {
    base::set_log_rank(launched->rank);
    if (!here.presence) {
      here.presence = std::make_unique<control::Presence>(short_name(launched->job), launched->rank,
                                                          launched->size, launched->folder,
                                                          launched->on_machine);
    }
    control::Presence& presence = *here.presence;
    sight = {&presence, std::make_shared<FailureDetector>(presence, notices_for(*launched),
                                                          control::Siblings(launched->name_space))};
    settings.while_starting = watch_start(presence, sight.ends, options);
    settings.while_finalising = watch_end(presence, options);
    settings.leaving = [&presence] { presence.leave(); };
  }
  mpi::start(settings);
  mpi::check_world_size();
  return sight;
}

[[noreturn]] void refuse_stranger(int mine, const std::vector<int>& ranks) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("rank {} creates a store over ranks {} (Options::ranks), but is not "
                          "one of them; only these ranks may create the store",
                          mine, fmt::join(ranks, ", ")));
}

/// The world ranks of a store, ascending. Empty if the store is over all ranks.
std::vector<int> group_of(std::vector<int> ranks) {
  const int size = mpi::world_size();
  const int mine = mpi::world_rank();
  if (ranks.empty()) return ranks;
  std::sort(ranks.begin(), ranks.end());
  if (ranks.back() >= size) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "the store is to be over ranks {} (Options::ranks), but the job's ranks are 0 to {}",
            fmt::join(ranks, ", "), size - 1));
  }
  if (!std::binary_search(ranks.begin(), ranks.end(), mine)) refuse_stranger(mine, ranks);
  if (static_cast<int>(ranks.size()) == size) ranks.clear();
  return ranks;
}

/// The lost rank, in the store's numbering.
std::optional<control::FailedRank> among(const std::vector<int>& group,
                                         std::optional<control::FailedRank> lost) {
  if (!lost || group.empty()) return lost;
  const auto at = std::lower_bound(group.begin(), group.end(), lost->rank);
  lost->rank = static_cast<int>(at - group.begin());
  return lost;
}

std::shared_ptr<Lookout> look_out(const Sight& sight, const std::vector<int>& group,
                                  const Options& options,
                                  const std::shared_ptr<Creating>& creating) {
  auto lookout = std::make_shared<Lookout>();
  if (sight.presence == nullptr) return lookout;
  // The store keeps the lookout, but the launcher's notices count only while the store is created.
  // So the lookout does not keep `sight.ends` alive.
  lookout->watch([seen = std::weak_ptr(sight.ends), group, limit = options.heartbeat_timeout] {
    const auto ends = seen.lock();
    return ends ? among(group, ends->poll_lost(limit, group)) : std::nullopt;
  });
  lookout->watch([seen = std::weak_ptr(sight.ends), group] {
    const auto ends = seen.lock();
    return ends ? among(group, ends->poll_leaving(group)) : std::nullopt;
  });
  lookout->excuse([creating, group](int rank) {
    return creating->was_given_up_by(group.empty() ? rank : group[static_cast<std::size_t>(rank)]);
  });
  return lookout;
}

// A rank's last words: the rank that is lost, and why.
std::string words_of(const control::FailedRank& lost) {
  return fmt::format("{} {}", lost.rank, lost.reason);
}

std::optional<control::FailedRank> lost_in(const std::optional<std::string>& words) {
  if (!words) return std::nullopt;
  std::size_t end = 0;
  const int rank = std::stoi(*words, &end);
  return control::FailedRank{rank, words->substr(end + 1)};
}

/// A process sees only the ends of processes on its own machine. It tells the ranks of other
/// machines.
void talk_over(const mpi::Communicator& communicator, Lookout& lookout) {
  lookout.tell([&communicator](const control::FailedRank& lost) {
    communicator.tell_others(words_of(lost));
  });
  lookout.listen([&communicator] { return lost_in(communicator.receive_last_words()); });
}

std::unique_ptr<mpi::Communicator> duplicate(const mpi::Communicator& communicator,
                                             std::chrono::milliseconds limit,
                                             const mpi::Communicator::Look& look) {
  try {
    return std::make_unique<mpi::Communicator>(communicator.duplicate(limit, look));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
    // The ranks no longer agree on which copy comes next.
    throw Error(ErrorCode::internal,
                fmt::format("{}; MPI cannot undo what it has begun, so this job can create no "
                            "more stores, and must end",
                            error.what()));
  }
}

mpi::Communicator meeting_place(const std::vector<int>& group, std::chrono::milliseconds limit,
                                const mpi::Communicator::Look& look) {
  return group.empty() ? mpi::Communicator::world(limit, look)
                       : mpi::Communicator::group(group, limit, look);
}

World meet(Circle& circle, const Sight& sight, const std::vector<int>& group,
           const Options& options, const std::shared_ptr<Creating>& creating)
    TUTTI_REQUIRES(circle.mutex) {
  const auto limit = options.create_timeout;
  World world;
  world.lookout = look_out(sight, group, options, creating);
  const auto look = [lookout = world.lookout, creating] {
    lookout->look();
    creating->look();
  };
  // MPI cannot take back a call, and MPI's call for a group polls until all ranks have come. So
  // this rank calls MPI only when all have come.
  creating->wait_for_machine(limit, look);
  if (!circle.communicator) {
    circle.communicator = std::make_unique<mpi::Communicator>(meeting_place(group, limit, look));
  }
  const mpi::Communicator& communicator = *circle.communicator;
  talk_over(communicator, *world.lookout);
  const auto meeting =
      std::make_shared<Meeting>(communicator, ++circle.attempts, circle.stores, limit, look);
  meeting->begin();
  world.rank = communicator.rank();
  world.size = communicator.size();
  world.world_ranks = group;
  world.creation_number = meeting->stores();
  world.all_gather = [meeting](const std::string& mine, const std::string& waiting_for) {
    return meeting->all_gather(mine, waiting_for);
  };
  world.lasting = &communicator;
  world.duplicate = [&communicator, limit, look] { return duplicate(communicator, limit, look); };
  return world;
}

void create_in_step(Circle& circle, const Sight& sight, const std::vector<int>& group,
                    const Options& options, const std::function<void(World)>& create)
    TUTTI_REQUIRES(circle.mutex) {
  const auto creating =
      std::make_shared<Creating>(sight.presence, group, circle.stores, options.stall_report_after);
  for (;;) {
    try {
      World world = meet(circle, sight, group, options, creating);
      const int number = world.creation_number;
      create(std::move(world));
      circle.stores = number + 1;
      creating->end(false);
      return;
    } catch (const Meeting::OutOfStep&) {
      base::log().debug("another rank gave up creating this store and has begun anew");
    } catch (const Error& error) {
      throw creating->explain(error);
    }
  }
}

/// Starts MPI. The threads of the process do so one after the other.
Sight start(const Options& options) {
  Process& here = process();
  Sight sight;
  mpi::in_turn(starting(), options.create_timeout, [&] {
    const base::Lock lock(here.mutex);
    sight = start(here, options);
  });
  return sight;
}

Circle& circle_of(const std::vector<int>& group) {
  Process& here = process();
  const base::Lock lock(here.mutex);
  return here.circles[group];
}

/// This process's rank in the job. It is known even before MPI is initialised; to initialise MPI
/// would wait for all ranks.
int rank_in_job() {
  if (mpi::is_initialised()) return mpi::world_rank();
  const auto launched = mpi::launched();
  return launched ? launched->rank : 0;
}

}  // namespace

bool is_alone(const Options& options) {
  if (options.ranks.size() != 1) return false;
  const int mine = rank_in_job();
  if (options.ranks.front() != mine) refuse_stranger(mine, options.ranks);
  return true;
}

void with_mpi_world(const Options& options, const std::function<void(World)>& create) {
  const Sight sight = start(options);
  const std::vector<int> group = group_of(options.ranks);
  Circle& circle = circle_of(group);
  // If two threads may not call MPI at the same time, the threads create all stores in turns.
  const std::vector<int> turn = mpi::is_multithreaded() ? group : std::vector<int>();
  mpi::in_turn(turn, options.create_timeout, [&] {
    const base::Lock lock(circle.mutex);
    try {
      create_in_step(circle, sight, group, options, create);
    } catch (const Error& error) {
      // MPI_Finalize would wait for the lost rank.
      if (error.code() == ErrorCode::peer_lost) mpi::abandon(true);
      throw Place{0, static_cast<int>(group.size()), group}.explain(error);
    }
  });
}

}  // namespace tutti::runtime
