#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/export.h"

namespace tutti {

/// How a store behaves. Fields that change behaviour come first, fields that change speed after.
/// Those marked [agreed] must be equal on all ranks: `create` compares them and throws `mismatch`.
/// Times are from 1 ms to a century, bytes at most 8 TiB; `create` throws `invalid_argument` for
/// others.
struct TUTTI_EXPORT Options {
  /// Reads the environment once; the comment of each field names its variable. Flags are 0, 1, true
  /// or false; times are seconds, such as 30 or 0.5; bytes are a whole number, with K, M, G or T
  /// for powers of 1024. An unknown `TUTTI_*` variable or an unusable value throws
  /// `invalid_argument` and suggests the right name; so does a `DMLC_*` or `PS_*` variable that is
  /// near to a known one. TUTTI_MODE, TUTTI_JOB_KEY, TUTTI_JOB_KEY_FILE, TUTTI_LISTEN_FD,
  /// TUTTI_END_NOTICES and TUTTI_AUTOLOAD are known too, but set no option.
  static Options from_env();

  /// Sets the field of that name, such as "key_timeout", to what its variable would say, such as
  /// "30": for options that come as text. Throws `invalid_argument` for an unknown field, and
  /// suggests the right one, and for a value that the variable would not take; then nothing
  /// changes.
  void set(std::string_view field, std::string_view value);

  /// [agreed] For `dist_sync_mpi` over some ranks: their ranks in MPI_COMM_WORLD, this process's
  /// among them, each once. Empty: all. Their order does not matter: in the store they are 0, 1,
  /// ... in ascending order, and so are `rank()`, roots and the ranks that messages name. Those
  /// ranks alone create the store, and ranks that share several stores create these in the same
  /// order. A process's first one starts MPI, unless the program has, and that waits for every rank
  /// of the job: a rank that creates no store with others calls MPI_Init instead, or all create a
  /// store over all ranks first. A store of one rank needs no other, has no thread and leaves MPI
  /// alone. No variable sets it.
  std::vector<int> ranks;
  /// Network for MPI and control traffic, e.g. "eth0". Empty: the system's choice. An unknown one
  /// is an error that lists those there are. `DMLC_INTERFACE`.
  std::string interface;
  /// [agreed] Encrypts control traffic between nodes, and all that a parameter server and its
  /// workers say; what MPI carries it leaves as it is. All processes of the job say the same.
  /// `TUTTI_ENCRYPT`.
  bool encrypt = false;
  /// You promise to make no MPI call while the store lives: lets several nodes work although MPI
  /// was initialised below MPI_THREAD_MULTIPLE. `TUTTI_USER_MAKES_NO_MPI_CALLS`.
  bool user_makes_no_mpi_calls = false;
  /// [agreed] Results depend on values, dtype and number of ranks alone, not on timing, fusion,
  /// chunking or algorithm. `false` allows faster algorithms without this promise; there is none
  /// yet. `TUTTI_REPRODUCIBLE`.
  bool reproducible = true;
  /// [agreed] For `dist_async` and its kin: how many more of its pushes of a key may have been
  /// executed than of the slowest worker's; one that would be ahead farther waits in the server.
  /// Unset: any number. 0: the workers go together, as with `dist_sync`. Else every worker pushes
  /// the same keys equally often; one that has left or is lost holds nobody up. In words of the
  /// variable: a whole number up to 1,000,000, or off. `TUTTI_STALENESS`.
  std::optional<int> staleness;
  /// The GPU of this process, as CUDA numbers those that it sees. Unset: at the store's first GPU
  /// tensor the device whose context is current on the calling thread, else the tensor's. Until it
  /// is known the store leaves CUDA alone. Types without GPUs ignore it. In words of the variable:
  /// a whole number from 0 on, or auto. `TUTTI_GPU`.
  std::optional<int> gpu;
  /// A tensor that some ranks have not submitted is reported after this, then at doubling
  /// intervals. `TUTTI_STALL_SECONDS`.
  std::chrono::milliseconds stall_report_after{30'000};
  /// [agreed] Such a tensor fails with `timeout` on all ranks after this; all may call again. The
  /// default is long, for rank 0 may be writing a checkpoint. The scheduler's own also bounds
  /// barriers of its job, and what servers take to begin. `TUTTI_TIMEOUT_SECONDS`.
  std::chrono::milliseconds key_timeout{1'800'000};
  /// A rank whose heartbeat is missing this long is lost, and so is one on this machine that is
  /// stopped this long while others create a store or end. `TUTTI_HEARTBEAT_SECONDS`.
  std::chrono::milliseconds heartbeat_timeout{30'000};
  /// How long each step of `create` waits for the other ranks. In MPI_Init, which nothing
  /// interrupts, the process then ends. A server that keeps a state reads it within this before it
  /// joins, and again before it comes back. `TUTTI_CREATE_SECONDS`.
  std::chrono::milliseconds create_timeout{300'000};
  /// off, critical, error, warning, info, debug or trace; goes to stderr. `TUTTI_LOG`.
  std::string log_level = "warning";
  /// [agreed] A file for the timeline of `dist_sync_mpi`: what happened to each tensor on each
  /// rank, for ui.perfetto.dev or `scripts/timeline`. Empty: none. Other types, and a store whose
  /// `ranks` are one, record none and log that. Written when the store closes; a later store of the
  /// process adds its number (trace.json, trace.2.json). Each rank writes `<file>.<rank>.part` on
  /// its host; rank 0 merges those it can read and names the others. Takes 24 MiB a rank, for the
  /// first million events. `create` throws `invalid_argument` for a file it cannot write, and
  /// resolves a relative path. A disk that fills up later ends nothing: the store logs path and
  /// reason at its close and removes what was cut short. `TUTTI_TIMELINE`.
  std::string timeline;

  /// [agreed] While ranks use the same keys again and again, they repeat the last cycle of batches
  /// without asking the coordinator. A rank that deviates asks it again. Off: the coordinator
  /// starts each tensor. `TUTTI_REPLAY`.
  bool replay = true;
  /// [agreed] Small tensors are fused into batches of at most this many bytes; 0 turns fusion off.
  /// Unset: 2 MiB on one node, 1 MiB between nodes. `TUTTI_FUSION_BYTES`.
  std::optional<std::size_t> fusion_bytes;
  /// [agreed] Larger tensors are cut into parts of this size, so that a more urgent one can
  /// overtake; 0 never cuts. Unset: 4 MiB on one node, 512 KiB between nodes. `TUTTI_PART_BYTES`.
  std::optional<std::size_t> part_bytes;
  /// [agreed] Bytes of a chunk that one rank sums in shared memory; 0: chosen at run time.
  /// `TUTTI_SLICE_BYTES`.
  std::size_t slice_bytes = 0;
};

}  // namespace tutti
