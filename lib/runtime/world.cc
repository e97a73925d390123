#include "runtime/world.h"

#include <fmt/format.h>
#include <sodium.h>

#include <array>

#include "base/log.h"
#include "base/mutex.h"
#include "control/presence.h"
#include "mpi/library.h"
#include "runtime/meeting.h"
#include "runtime/mpi_watch.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

/// MPI is one per process, and so is what stores are created with.
struct Process {
  base::Mutex mutex;  ///< level 1; of whoever creates a store
  std::unique_ptr<control::Presence> presence TUTTI_GUARDED_BY(mutex);
  std::unique_ptr<mpi::Communicator> communicator TUTTI_GUARDED_BY(mutex);
  int attempts TUTTI_GUARDED_BY(mutex) = 0;  ///< to create a store
  int stores TUTTI_GUARDED_BY(mutex) = 0;
};

Process& process() {
  // Never destroyed: MPI may be finalised by an exit handler.
  static auto* const only = new Process;
  return *only;
}

std::string short_name(const std::string& text) {
  std::array<unsigned char, 16> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  return fmt::format("{:02x}", fmt::join(hash, ""));
}

/// Before MPI is up, so that a rank's end is seen even there.
void start(Process& here, const Options& options) TUTTI_REQUIRES(here.mutex) {
  mpi::StartSettings settings;
  settings.interface = options.interface;
  const auto launched = mpi::launched();
  if (launched && launched->size > 1) {
    base::set_log_rank(launched->rank);
    if (!here.presence) {
      here.presence = std::make_unique<control::Presence>(short_name(launched->job), launched->rank,
                                                          launched->size, launched->folder);
    }
    control::Presence& presence = *here.presence;
    settings.while_starting = watch_start(presence, launched->on_machine, options);
    settings.while_finalising = watch_end(presence, options);
    settings.leaving = [&presence] { presence.leave(); };
  }
  mpi::start(settings);
  mpi::check_world_size();
}

std::shared_ptr<Lookout> lookout(Process& here, const Options& options) TUTTI_REQUIRES(here.mutex) {
  auto lookout = std::make_shared<Lookout>();
  if (control::Presence* const presence = here.presence.get()) {
    lookout->watch([presence, limit = options.heartbeat_timeout] { return presence->lost(limit); });
    lookout->watch([presence] { return presence->leaving(); });
  }
  return lookout;
}

// Last words: the rank that is lost, and why.
std::string words_of(const control::LostRank& lost) {
  return fmt::format("{} {}", lost.rank, lost.reason);
}

std::optional<control::LostRank> lost_in(const std::optional<std::string>& words) {
  if (!words) return std::nullopt;
  std::size_t end = 0;
  const int rank = std::stoi(*words, &end);
  return control::LostRank{rank, words->substr(end + 1)};
}

/// A process sees the ends of its own machine's alone, and tells those of others.
void talk_over(const mpi::Communicator& communicator, Lookout& lookout) {
  lookout.tell(
      [&communicator](const control::LostRank& lost) { communicator.tell_others(words_of(lost)); });
  lookout.listen([&communicator] { return lost_in(communicator.heard()); });
}

std::unique_ptr<mpi::Communicator> duplicate(const mpi::Communicator& communicator,
                                             std::chrono::milliseconds limit,
                                             const mpi::Communicator::Look& look) {
  try {
    return std::make_unique<mpi::Communicator>(communicator.duplicate(limit, look));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
    // Of ranks that no longer agree on which copy is the next one.
    throw Error(ErrorCode::internal,
                fmt::format("{}; MPI cannot take back what it has begun, so that no store can be "
                            "created any more: the job must end",
                            error.what()));
  }
}

World meet(Process& here, const Options& options) TUTTI_REQUIRES(here.mutex) {
  const auto limit = options.create_timeout;
  World world;
  world.lookout = lookout(here, options);
  const auto look = [lookout = world.lookout] { lookout->look(); };
  if (!here.communicator) {
    here.communicator = std::make_unique<mpi::Communicator>(mpi::Communicator::world(limit, look));
  }
  const mpi::Communicator& communicator = *here.communicator;
  talk_over(communicator, *world.lookout);
  const auto meeting =
      std::make_shared<Meeting>(communicator, ++here.attempts, here.stores, limit, look);
  meeting->begin();
  world.rank = communicator.rank();
  world.size = communicator.size();
  world.creation_number = meeting->stores();
  world.all_gather = [meeting](const std::string& mine, const std::string& waiting_for) {
    return meeting->all_gather(mine, waiting_for);
  };
  world.duplicate = [&communicator, limit, look] { return duplicate(communicator, limit, look); };
  return world;
}

void create_in_step(Process& here, const Options& options, const std::function<void(World)>& create)
    TUTTI_REQUIRES(here.mutex) {
  for (;;) {
    try {
      World world = meet(here, options);
      const int number = world.creation_number;
      create(std::move(world));
      here.stores = number + 1;
      return;
    } catch (const Meeting::OutOfStep&) {
      base::log().debug("another rank gave up creating this store and has begun anew");
    }
  }
}

}  // namespace

void with_mpi_world(const Options& options, const std::function<void(World)>& create) {
  mpi::in_turn(options.create_timeout, [&] {
    Process& here = process();
    const base::Lock lock(here.mutex);
    try {
      start(here, options);
      create_in_step(here, options, create);
    } catch (const Error& error) {
      // Its end would be waited for at the end of MPI.
      if (error.code() == ErrorCode::peer_lost) mpi::abandon(true);
      throw;
    }
  });
}

}  // namespace tutti::runtime
