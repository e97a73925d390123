#include "mpi/library.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/completion.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/mutex.h"
#include "mpi/checked.h"
#include "mpi/collective_call.h"
#include "tutti/error.h"

namespace tutti::mpi {

/// Shared, so that it outlives its hook while another thread is about to run it.
struct StopHook::Entry {
  explicit Entry(std::function<void()> what) : stop(std::move(what)) {}

  void run() {
    const base::Lock lock(running);
    if (stop) stop();
  }
  void disarm() {
    const base::Lock lock(running);
    stop = nullptr;
  }

  base::Mutex running;  ///< level 2; held while `stop` runs
  std::function<void()> stop TUTTI_GUARDED_BY(running);
};

namespace {

/// What tutti must remember of MPI: one per process, as there is one MPI.
struct Process {
  base::Mutex mutex;                              ///< level 2
  bool creating TUTTI_GUARDED_BY(mutex) = false;  ///< a thread creates a store
  base::CondVar created;
  std::list<std::shared_ptr<StopHook::Entry>> hooks TUTTI_GUARDED_BY(mutex);
  bool started TUTTI_GUARDED_BY(mutex) = false;
  const pid_t id = ::getpid();
  StartSettings settings TUTTI_GUARDED_BY(mutex);
  std::atomic<bool> abandoned{false};
  std::atomic<bool> fails_untold{false};  ///< no error has told the program
};

Process& process() {
  // Never destroyed: exit handlers use it.
  static auto* const only = new Process;
  return *only;
}

/// Holds the process's turn to create a store, for a scope.
class Turn {
 public:
  explicit Turn(std::chrono::milliseconds limit) {
    base::Lock lock(process().mutex);
    const auto deadline = base::Clock::now() + limit;
    while (process().creating) {
      if (process().created.wait_until(lock, deadline) || !process().creating) continue;
      throw Error(ErrorCode::timeout,
                  fmt::format("waited {} ms for another thread of this process to create its store "
                              "(create_timeout, TUTTI_CREATE_SECONDS)",
                              limit.count()));
    }
    process().creating = true;
  }
  ~Turn() {
    const base::Lock lock(process().mutex);
    process().creating = false;
    process().created.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
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

/// A copy of the list, so that the hooks run without the lock: a stop may take long.
std::list<std::shared_ptr<StopHook::Entry>> open_stores() {
  const base::Lock lock(process().mutex);
  return process().hooks;
}

/// By any thread: others wait in that `create` for this rank, and MPI is in use.
bool is_creating() {
  const base::Lock lock(process().mutex);
  return process().creating;
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

void leave(int status, void* unused) {
  static_cast<void>(unused);
  if (is_in_child()) return;
  const bool may_finalise = !process().abandoned && !calls_left_open();
  // With another status other ranks may wait for this one elsewhere, for example in `create`. If
  // this rank waited for them in MPI_Finalize, they would never see it end.
  const bool creating = is_creating();
  bool in_order = may_finalise && status == 0 && !creating;
  if (creating) {
    base::log().error(
        "the process ended with status {} while it created a store: to the other ranks this one "
        "is lost",
        status);
  }
  if (may_finalise && !open_stores().empty()) {
    in_order = in_order && !base::Completion::is_in_callback();
    base::log().error(
        "a store was still open when the process ended with status {}: {}; destroy "
        "it before main returns or exit is called",
        status,
        in_order ? "it is closed now"
                 : "it is left as it is, and to the "
                   "other ranks this one is lost");
    if (in_order) stop_all();
  }
  // A rank may have been lost while the stores were closed.
  if (!in_order || process().abandoned) {
    std::fflush(nullptr);
    ::_exit(process().fails_untold ? failure_of(status) : status);
  }
  if (is_finalised()) return;
  const base::Watchdog watchdog(settings().while_finalising, failure_of(status));
  MPI_Finalize();
}

int on_finalise(MPI_Comm comm, int key, void* value, void* extra) {
  static_cast<void>(comm), static_cast<void>(key), static_cast<void>(value),
      static_cast<void>(extra);
  stop_all();
  if (const auto leaving = settings().leaving) leaving();
  return MPI_SUCCESS;
}

/// MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF, which calls `on_finalise`.
void watch_finalise() {
  int key = MPI_KEYVAL_INVALID;
  checked(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalise, &key, nullptr),
          "MPI_Comm_create_keyval");
  checked(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
}

void initialise(const StartSettings& settings) {
  if (!settings.interface.empty()) {
    ::setenv("OMPI_MCA_btl_tcp_if_include", settings.interface.c_str(), 0);
  }
  int provided = 0;
  const base::Watchdog watchdog(settings.while_starting, EXIT_FAILURE);
  checked(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  ::on_exit(leave, nullptr);
}

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0') return std::nullopt;
  return static_cast<int>(value);
}

constexpr const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "single";
    case MPI_THREAD_FUNNELED:
      return "funneled";
    case MPI_THREAD_SERIALIZED:
      return "serialized";
    default:
      return "multiple";
  }
}

int query_level() {
  int level = MPI_THREAD_SINGLE;
  checked(MPI_Query_thread(&level), "MPI_Query_thread");
  return level;
}

bool is_initialised() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  return initialised != 0;
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
  watch_finalise();
  process().started = true;
}

std::optional<Launched> launched() {
  const char* const job = std::getenv("PMIX_NAMESPACE");
  const auto rank = number_in("PMIX_RANK");
  if (job == nullptr || !rank) return std::nullopt;
  Launched launched{.job = job, .rank = *rank};
  launched.on_machine = number_in("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(0);
  const char* const folder = std::getenv("PMIX_SERVER_TMPDIR");
  if (folder != nullptr) launched.folder = folder;
  // Jobs in containers that share a network may have the same name, but their servers' ports
  // differ.
  for (const char* const variable : {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                     "PMIX_SERVER_URI2", "PMIX_SERVER_URI21"}) {
    if (const char* const server = std::getenv(variable)) launched.job += std::string(" ") + server;
  }
  for (const auto& [size_name, rank_name] : base::launcher_variables) {
    const auto size = number_in(size_name.data());
    if (size && launched.size == 1) launched.size = *size;
  }
  return launched;
}

void in_turn(std::chrono::milliseconds limit, const std::function<void()>& create) {
  if (is_in_child()) {
    throw Error(ErrorCode::unsupported,
                "MPI belongs to the process that this one was forked from: create the store there, "
                "or fork before the first store is created");
  }
  const Turn turn(limit);
  create();
}

void check_world_size() {
  int size = 0;
  checked(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const auto refuse = [&](const char* variable, int said) {
    throw Error(
        ErrorCode::mismatch,
        fmt::format("MPI sees {} process{} but the launcher started {} ({}={}): the program "
                    "uses another MPI than the launcher; start it with the mpirun of {}",
                    size, size == 1 ? "" : "es", said, variable, said, compiled_library()));
  };
  if (const auto said = number_in("OMPI_COMM_WORLD_SIZE")) {
    if (*said != size) refuse("OMPI_COMM_WORLD_SIZE", *said);
    return;
  }
  if (size != 1) return;
  for (const auto& [size_name, rank_name] : base::launcher_variables) {
    const auto said = number_in(size_name.data());
    if (said && *said > 1) refuse(size_name.data(), *said);
  }
}

void check_thread_level(int node_count, bool user_makes_no_mpi_calls) {
  if (node_count == 1 || user_makes_no_mpi_calls) return;
  const int level = query_level();
  if (level == MPI_THREAD_MULTIPLE) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("MPI was initialised for threads at level '{}', and dist_sync_mpi on {} nodes "
                  "needs 'multiple': call MPI_Init_thread with MPI_THREAD_MULTIPLE, or create the "
                  "store before MPI_Init, or set TUTTI_USER_MAKES_NO_MPI_CALLS=1 if the program "
                  "makes no MPI call while the store lives",
                  level_name(level), node_count));
}

void abandon(bool told) {
  if (!told) process().fails_untold = true;
  process().abandoned = true;
}

StopHook::StopHook(std::function<void()> stop) : entry_(std::make_shared<Entry>(std::move(stop))) {
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

std::string compiled_library() {
  return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                     OMPI_RELEASE_VERSION);
}

std::string loaded_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  checked(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  return text;
}

std::string thread_level() {
  return is_initialised() ? level_name(query_level()) : "none";
}

}  // namespace tutti::mpi
