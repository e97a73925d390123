#include "mpi/library.h"

#include <fmt/format.h>
#include <mpi.h>
#include <net/if.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/completion.h"
#include "base/first_to_say.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/uncaught.h"
#include "base/wait_limits.h"
#include "mpi/checked.h"
#include "mpi/collective_call.h"
#include "tutti/error.h"

namespace tutti::mpi {

/// The entry is shared, so that it outlives its hook while another thread is about to run it.
struct StopHook::Entry {
  Entry(std::function<void()> what, std::string whose)
      : store(std::move(whose)), stop(std::move(what)) {}

  void run() {
    const base::Lock lock(running);
    if (stop) stop();
  }
  void disarm() {
    const base::Lock lock(running);
    stop = nullptr;
  }

  const std::string store;
  base::Mutex running{2};  ///< held while `stop` runs
  std::function<void()> stop TUTTI_GUARDED_BY(running);
};

namespace {

/// tutti's state of MPI. A process has one, as it has one MPI.
struct MpiState {
  base::Mutex mutex{2};
  /// The ranks of each store that some thread is creating at the moment.
  std::set<std::vector<int>> creating TUTTI_GUARDED_BY(mutex);
  base::CondVar created;
  std::list<std::shared_ptr<StopHook::Entry>> hooks TUTTI_GUARDED_BY(mutex);
  std::unique_ptr<base::Watchdog> finalising TUTTI_GUARDED_BY(mutex);  ///< while MPI_Finalize runs
  bool started TUTTI_GUARDED_BY(mutex) = false;
  const pid_t id = ::getpid();
  StartSettings settings TUTTI_GUARDED_BY(mutex);
  std::atomic<bool> abandoned{false};
  std::atomic<bool> fails_untold{false};  ///< no error has told the program
};

MpiState& process() {
  // The object is never destroyed, because exit handlers use it.
  static auto* const only = new MpiState;
  return *only;
}

/// Holds the process's turn to create a store over some ranks, for a scope.
class Turn {
 public:
  Turn(std::vector<int> ranks, std::chrono::milliseconds limit) : ranks_(std::move(ranks)) {
    base::Lock lock(process().mutex);
    const auto deadline = base::Clock::now() + limit;
    while (process().creating.contains(ranks_)) {
      if (process().created.wait_until(lock, deadline)) continue;
      if (!process().creating.contains(ranks_)) break;
      throw Error(ErrorCode::timeout,
                  fmt::format("waited {} for another thread of this process to create its store",
                              base::create_limit(limit)));
    }
    process().creating.insert(ranks_);
  }
  ~Turn() {
    const base::Lock lock(process().mutex);
    process().creating.erase(ranks_);
    process().created.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  const std::vector<int> ranks_;
};

/// MPI and the stores belong to the process that started them, not to its children.
bool is_in_child() {
  return ::getpid() != process().id;
}

bool is_finalised() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  return finalised != 0;
}

/// Returns a copy of the list, so that the hooks run without the lock. A stop may take long.
std::list<std::shared_ptr<StopHook::Entry>> open_stores() {
  const base::Lock lock(process().mutex);
  return process().hooks;
}

/// Whether any thread is creating a store. Then other ranks wait in that `create` for this rank,
/// and MPI is in use.
bool is_creating() {
  const base::Lock lock(process().mutex);
  return !process().creating.empty();
}

void stop_all() {
  for (const auto& entry : open_stores()) entry->run();
}

StartSettings settings() {
  const base::Lock lock(process().mutex);
  return process().settings;
}

int failure_of(int status) {
  return status == 0 ? EXIT_FAILURE : status;
}

/// Whether a call of MPI is open to which other ranks never came. It can be neither finished nor
/// taken back.
bool is_stuck() {
  if (!poll_left_open()) return false;
  base::log().error(
      "a create that was given up has left a call of MPI open, to which the other ranks never "
      "came: the process ends without MPI_Finalize, and mpirun takes that for a failure");
  return true;
}

/// An error may end all ranks of the stores at once, and each has said which one. Then one rank of
/// the machine logs this.
void say_left_open(int status, bool in_order) {
  const std::string text = fmt::format(
      "a store was still open when the process ended with status {}: {}{}", status,
      in_order ? "it is closed now" : "it stays open, and the other ranks take this rank for lost",
      // The advice is only for a program that ends with status 0, and not for one that an error
      // ends.
      status == 0 ? "; destroy it before main returns or exit is called" : "");
  std::string stores;
  for (const auto& entry : open_stores()) stores += entry->store + ";";
  if (status == 0 || base::is_first_to_say(text, stores)) base::log().error("{}", text);
}

void leave(int status, void* unused) {
  static_cast<void>(unused);
  if (is_in_child()) return;
  const bool may_finalise = !process().abandoned && !is_stuck();
  // If the status is not 0, other ranks may wait for this one elsewhere, for example in `create`.
  // If this rank waited for them in MPI_Finalize, they would never see it end.
  const bool creating = is_creating();
  bool in_order = may_finalise && status == 0 && !creating;
  if (creating) {
    base::log().error(
        "the process ended with status {} while it created a store: the other ranks take this "
        "rank for lost",
        status);
  }
  if (may_finalise && !open_stores().empty()) {
    in_order = in_order && !base::Completion::is_in_callback();
    say_left_open(status, in_order);
    if (in_order) stop_all();
  }
  // A rank may have been lost while the stores were closed.
  if (!in_order || process().abandoned) {
    std::fflush(nullptr);
    ::_exit(process().fails_untold ? failure_of(status) : status);
  }
  if (!is_finalised()) MPI_Finalize();
}

int on_finalise(MPI_Comm /*comm*/, int /*key*/, void* /*value*/, void* /*extra*/) {
  stop_all();
  if (const auto leaving = settings().leaving) leaving();
  const base::Lock lock(process().mutex);
  process().finalising =
      std::make_unique<base::Watchdog>(process().settings.while_finalising, EXIT_FAILURE);
  return MPI_SUCCESS;
}

/// All ranks have come to MPI_Finalize. From now on they may end, and the program may go on.
int on_all_come(MPI_Comm /*comm*/, int /*key*/, void* /*value*/, void* /*extra*/) {
  const base::Lock lock(process().mutex);
  process().finalising.reset();
  return MPI_SUCCESS;
}

void when_deleted(MPI_Comm comm, MPI_Comm_delete_attr_function* call) {
  int key = MPI_KEYVAL_INVALID;
  checked(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, call, &key, nullptr),
          "MPI_Comm_create_keyval");
  checked(MPI_Comm_set_attr(comm, key, nullptr), "MPI_Comm_set_attr");
}

void initialise(const StartSettings& settings) {
  // If there is no such interface, Open MPI would print a page of text on every rank. Several pages
  // at the same time can crash mpirun. `create` fails with a clearer text in any case.
  if (::if_nametoindex(settings.interface.c_str()) != 0) {
    ::setenv("OMPI_MCA_btl_tcp_if_include", settings.interface.c_str(), 0);
  }
  int provided = 0;
  const base::Watchdog watchdog(settings.while_starting, EXIT_FAILURE);
  checked(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  ::on_exit(leave, nullptr);
}

}  // namespace

void start(const StartSettings& settings) {
  const base::Lock lock(process().mutex);
  if (is_finalised()) {
    throw Error(ErrorCode::invalid_argument,
                "MPI has been finalised in this process; create the store before MPI_Finalize");
  }
  if (process().started) return;
  process().settings = settings;
  if (!is_initialised()) initialise(settings);
  process().settings.while_starting = nullptr;
  base::shorten_uncaught_errors();
  // MPI_Finalize begins with the attributes of MPI_COMM_SELF. Open MPI deletes the
  // attributes of MPI_COMM_WORLD when it has waited for all ranks.
  when_deleted(MPI_COMM_SELF, on_finalise);
  when_deleted(MPI_COMM_WORLD, on_all_come);
  process().started = true;
}

void in_turn(const std::vector<int>& ranks, std::chrono::milliseconds limit,
             const std::function<void()>& create) {
  if (is_in_child()) {
    throw Error(ErrorCode::unsupported,
                "this process was forked from the one that has initialised MPI, and only that "
                "process can use MPI: create the store there, and pass that process what is to "
                "be exchanged (in Python by a multiprocessing queue, or as a pool's result); "
                "this process can create a store of one process, such as 'local'");
  }
  const Turn turn(ranks, limit);
  create();
}

void abandon(bool told) {
  if (!told) process().fails_untold = true;
  process().abandoned = true;
}

StopHook::StopHook(std::function<void()> stop, std::string store)
    : entry_(std::make_shared<Entry>(std::move(stop), std::move(store))) {
  const base::Lock lock(process().mutex);
  process().hooks.push_back(entry_);
}

StopHook::~StopHook() {
  {
    const base::Lock lock(process().mutex);
    process().hooks.remove(entry_);
  }
  entry_->disarm();
}

}  // namespace tutti::mpi
