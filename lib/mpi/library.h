#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/watchdog.h"

namespace tutti::mpi {

struct StartSettings {
  /// Network for MPI's own traffic, when this call initialises MPI; empty: MPI's choice. What
  /// mpirun and its daemons use is set by the launcher.
  std::string interface;
  /// Look on while MPI is initialised, and while tutti finalises it at the end of the process: MPI
  /// interrupts neither. A hopeless finding ends the process with its own status, but never with 0.
  base::Watchdog::Look while_starting;
  base::Watchdog::Look while_finalising;
  /// Called when MPI begins to be finalised, whoever does it.
  std::function<void()> leaving;
};

/// What the launcher's variables say of this process, before MPI is initialised. None in a process
/// that no MPI launcher started.
struct Launched {
  std::string job;  ///< text that no other job on this machine has at the time
  int rank = 0;     ///< in MPI_COMM_WORLD
  int size = 1;
  int on_machine = 0;  ///< how many of them run on this machine; 0: it does not say
};
std::optional<Launched> launched();

/// Initialises MPI with MPI_THREAD_MULTIPLE if nobody has; then tutti finalises it when the process
/// exits. Thread-safe. Throws `internal`, or `unsupported` in a build without MPI.
void start(const StartSettings& settings);

/// Calls `create` while no other thread of the process is in here: what is collective over all
/// processes must come in one order. Blocks until it is this thread's turn; throws `timeout` after
/// `limit`, and `unsupported` in a child of the process that came here first.
void in_turn(std::chrono::milliseconds limit, const std::function<void()>& create);

/// Throws `mismatch` when MPI's world is smaller than the launcher that started this process says
/// (another MPI's mpirun, a program linked with another MPI): no silent worlds of one.
void check_world_size();

/// On several nodes the communication thread calls MPI beside the program's own threads. Throws
/// `invalid_argument` when MPI was initialised for fewer, unless the program makes no MPI call.
void check_thread_level(int node_count, bool user_makes_no_mpi_calls);

/// A peer is lost: finalising would wait for it for ever. From now on the process leaves, at its
/// exit, by flushing its streams and `_exit` with its own status. If the program was `told` of it,
/// by an error, that may be 0; else it is 1 then, for the job did not end well.
void abandon(bool told);

/// While it lives, `stop` is called when the program finalises MPI, or ends with status 0 and tutti
/// finalises it; with another status the process leaves as if `abandon` had been called, for what
/// is under way may never end. The destructor waits while `stop` runs in another thread.
class StopHook {
 public:
  explicit StopHook(std::function<void()> stop);
  ~StopHook();
  StopHook(const StopHook&) = delete;
  StopHook& operator=(const StopHook&) = delete;

  struct Entry;

 private:
  const std::shared_ptr<Entry> entry_;
};

/// "Open MPI 4.1.4" as compiled against, and what the loaded library says of itself. Need no start.
std::string compiled_library();
std::string loaded_library();
/// "multiple", "serialized", "funneled", "single"; "none" before MPI is initialised.
std::string thread_level();

}  // namespace tutti::mpi
