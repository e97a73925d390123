// The facts that MPI and its launcher tell about themselves and about this process.
#include <fmt/format.h>
#include <mpi.h>

#include <mpi-ext.h>  // after mpi.h, which it needs

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/launcher.h"
#include "base/log.h"
#include "mpi/checked.h"
#include "mpi/library.h"
#include "tutti/error.h"

namespace tutti::mpi {
namespace {

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

/// Whether this process is a singleton: no launcher started it, and it has made up the environment
/// of one, which its children inherit.
bool is_singleton() {
  const char* const kind = std::getenv("OMPI_MCA_ess");
  return kind != nullptr && std::string_view(kind) == "singleton";
}

/// Whether the size comes from a launcher, which also sets the rank. A batch system tells the one
/// process of a script the size of the whole allocation, and a shell keeps the size of an old job.
bool is_launchers_word(const base::LauncherVariables& names) {
  if (names.rank == "PMIX_RANK" && is_singleton()) return false;
  // WORLD_SIZE counts even without a rank: four trainings that each work alone would write one
  // checkpoint.
  return names.size == "WORLD_SIZE" || number_in(names.rank.data());
}

/// Warns once in a process, even if the process makes many stores.
void warn_of_size(const base::LauncherVariables& names, int said) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  base::log().warn(
      "{}={} is set and {} is not, so no launcher started this process: it works alone; for {} "
      "processes type: mpirun -n {} PROGRAM",
      names.size, said, names.rank, said, said);
}

}  // namespace

std::optional<Launched> launched() {
  if (is_singleton()) return std::nullopt;
  const char* const job = std::getenv("PMIX_NAMESPACE");
  const auto rank = number_in("PMIX_RANK");
  if (job == nullptr || !rank) return std::nullopt;
  Launched launched{.job = job, .name_space = job, .rank = *rank};
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

bool is_initialised() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  return initialised != 0;
}

int world_rank() {
  int rank = 0;
  checked(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return rank;
}

int world_size() {
  int size = 0;
  checked(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return size;
}

bool is_multithreaded() {
  return query_level() == MPI_THREAD_MULTIPLE;
}

void check_world_size() {
  const int size = world_size();
  const auto refuse = [&](const char* variable, int said) {
    throw Error(
        ErrorCode::mismatch,
        fmt::format("MPI sees {} process{}, but the launcher started {} ({}={}), because it is "
                    "not the launcher of the program's MPI; type instead: mpirun -n {} PROGRAM, "
                    "with the mpirun of {}; if the job is to have one process, unset {}",
                    size, size == 1 ? "" : "es", said, variable, said, said, compiled_library(),
                    variable));
  };
  if (const auto said = number_in("OMPI_COMM_WORLD_SIZE")) {
    if (*said != size) refuse("OMPI_COMM_WORLD_SIZE", *said);
    return;
  }
  if (size != 1) return;
  const auto contradicts = [](const base::LauncherVariables& names) {
    return number_in(names.size.data()).value_or(1) > 1;
  };
  for (const auto& names : base::launcher_variables) {
    if (!contradicts(names) || !is_launchers_word(names)) continue;
    refuse(names.size.data(), *number_in(names.size.data()));
  }
  const auto other = std::ranges::find_if(base::launcher_variables, contradicts);
  if (other != base::launcher_variables.end()) {
    warn_of_size(*other, *number_in(other->size.data()));
  }
}

void check_thread_level(int node_count, bool user_makes_no_mpi_calls) {
  if (node_count == 1 || user_makes_no_mpi_calls) return;
  const int level = query_level();
  if (level == MPI_THREAD_MULTIPLE) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("the program initialised MPI with thread level '{}', but dist_sync_mpi on {} "
                  "nodes needs 'multiple': call MPI_Init_thread with MPI_THREAD_MULTIPLE, or "
                  "create the store before MPI_Init, or set TUTTI_USER_MAKES_NO_MPI_CALLS=1 if "
                  "the program makes no MPI call while the store lives",
                  level_name(level), node_count));
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

bool is_cuda_aware() {
  return MPIX_Query_cuda_support() == 1;
}

std::string thread_level() {
  return is_initialised() ? level_name(query_level()) : "none";
}

}  // namespace tutti::mpi
