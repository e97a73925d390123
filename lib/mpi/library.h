#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/watchdog.h"

namespace tutti::mpi {

struct StartSettings {
  /// The network interface for MPI's traffic, used if `start` initialises MPI. If it is empty, MPI
  /// chooses. The launcher sets the interface of mpirun and its daemons.
  std::string interface;
  /// Watch MPI_Init, if tutti calls it, and MPI_Finalize, whether tutti or the program calls it,
  /// because nothing can interrupt them. A hopeless finding ends the process with status 1.
  base::Watchdog::Look while_starting;
  base::Watchdog::Look while_finalising;
  /// Called at the beginning of MPI_Finalize, whether tutti or the program calls that.
  std::function<void()> leaving;
};

/// The place of this process, from the MPI launcher's environment variables. They can be read
/// before MPI is initialised. `launched` returns nothing in a process that no MPI launcher started.
struct Launched {
  std::string job;         ///< differs from all other jobs that run on this machine
  std::string name_space;  ///< the MPI launcher's name for it
  int rank = 0;            ///< in MPI_COMM_WORLD
  int size = 1;
  /// A folder on this machine that is removed with the job; empty: there is none.
  std::string folder{};
  int on_machine = 0;  ///< the number of ranks that run on this machine; 0: not known
};
std::optional<Launched> launched();

/// Initialises MPI with MPI_THREAD_MULTIPLE unless the program has done so. If tutti initialises
/// MPI, it also finalises it when the process exits. Thread-safe. Throws `internal`, or
/// `unsupported` in a build without MPI.
void start(const StartSettings& settings);

/// Calls `create`. For the same `ranks` one thread of the process at a time does so, because
/// collective calls over them must come in the same order on all processes. Blocks until it is this
/// thread's turn. Throws `timeout` after `limit`, and `unsupported` in a forked child whose parent
/// had called it before.
void in_turn(const std::vector<int>& ranks, std::chrono::milliseconds limit,
             const std::function<void()>& create);

bool is_initialised();
/// The rank of this process in MPI_COMM_WORLD, and its size. MPI must have been started.
int world_rank();
int world_size();
/// Whether MPI was initialised with MPI_THREAD_MULTIPLE, so that several threads may call it at the
/// same time.
bool is_multithreaded();

/// Throws `mismatch` if MPI's world has another size than the launcher of this process says
/// (another MPI's mpirun, a program linked with another MPI). Otherwise every process would
/// silently be a world of one.
void check_world_size();

/// On several nodes the communication thread calls MPI while the program's own threads may do so
/// too. Throws `invalid_argument` if MPI's thread level does not allow that, unless the program
/// makes no MPI call.
void check_thread_level(int node_count, bool user_makes_no_mpi_calls);

/// Call this when a rank is lost, because MPI_Finalize would wait for that rank for ever. At its
/// exit the process then flushes its streams and calls `_exit` with its exit status. If no error
/// has `told` the program of the loss, a status of 0 becomes 1, because the job did not end well.
void abandon(bool told);

/// As long as it lives, it calls `stop` when the program finalises MPI, or when the process ends
/// with status 0 and tutti finalises MPI. If the process ends with another status, it leaves as if
/// `abandon` had been called, because calls under way may never end. The destructor waits while
/// `stop` runs in another thread. `store` tells stores over different ranks apart.
class StopHook {
 public:
  StopHook(std::function<void()> stop, std::string store);
  ~StopHook();
  StopHook(const StopHook&) = delete;
  StopHook& operator=(const StopHook&) = delete;

  struct Entry;

 private:
  const std::shared_ptr<Entry> entry_;
};

/// The MPI with which tutti was compiled, such as "Open MPI 4.1.4", and the loaded library's own
/// description. Both work before `start`.
std::string compiled_library();
std::string loaded_library();
/// Whether MPI reads and writes device memory itself. Works before `start`.
bool is_cuda_aware();
/// "multiple", "serialized", "funneled", "single"; "none" before MPI is initialised.
std::string thread_level();

}  // namespace tutti::mpi
