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

/// Options of a store. Fields that change behaviour come first; fields that only change speed come
/// after them.
///
/// Fields marked [agreed] must be equal on all ranks. `create` compares them, and throws `mismatch`
/// if they differ. Times are from 1 ms to a century, and sizes are at most 8 TiB; `create` throws
/// `invalid_argument` for other values.
struct TUTTI_EXPORT Options {
  /// Reads the options from the environment, once. The comment of each field ends with the name of
  /// its variable. The variables take:
  /// - flags: 0, 1, true or false;
  /// - times: seconds, such as 30 or 0.5;
  /// - sizes: a whole number of bytes, or of K, M, G or T for powers of 1024.
  ///
  /// Throws `invalid_argument` for an unusable value, for an unknown `TUTTI_*` variable, and for a
  /// `DMLC_*` or `PS_*` variable whose name is close to a known one. The error suggests the right
  /// name. It accepts TUTTI_MODE, TUTTI_JOB_KEY, TUTTI_JOB_KEY_FILE, TUTTI_LISTEN_FD,
  /// TUTTI_END_NOTICES and TUTTI_AUTOLOAD, which set no option.
  static Options from_env();

  /// Sets one field from text, for options that come as text. `field` is the field's name, such as
  /// "key_timeout". `value` has the form that the field's variable takes, such as "30".
  ///
  /// Throws `invalid_argument` for an unknown field, and suggests the right one. Throws
  /// `invalid_argument` for a value that the variable would not take. Then nothing changes.
  void set(std::string_view field, std::string_view value);

  /// [agreed] Makes a `dist_sync_mpi` store over some of the job's ranks. Lists their ranks in
  /// MPI_COMM_WORLD: each once, with this process's rank among them. Empty: all ranks.
  ///
  /// - The order of the list does not matter. In the store, the ranks are numbered 0, 1, ... in
  ///   ascending order. `rank()`, roots and messages use these numbers.
  /// - Only the listed ranks create the store. Ranks that share several stores must create them in
  ///   the same order.
  /// - The first store of a process starts MPI, unless the program has done so. Starting MPI waits
  ///   for every rank of the job. So a rank that creates no store with other ranks must call
  ///   MPI_Init itself. If all ranks first create a store over all ranks, no rank needs to.
  /// - A store of one rank waits for no other rank, has no thread, and does not use MPI.
  ///
  /// No variable sets it.
  std::vector<int> ranks;
  /// The network interface for MPI and control traffic, such as "eth0". Empty: the system chooses.
  /// If there is no such interface, `create` throws `invalid_argument`, and the error lists the
  /// existing ones. `DMLC_INTERFACE`.
  std::string interface;
  /// [agreed] Encrypts control traffic between nodes, and all messages of a parameter server's job.
  /// Does not encrypt data that MPI carries. All processes of the job must set it alike.
  /// `TUTTI_ENCRYPT`.
  bool encrypt = false;
  /// By this the program promises that it makes no MPI call while the store lives. A store over
  /// several nodes then works even if the program has initialised MPI with a lower thread level
  /// than MPI_THREAD_MULTIPLE. `TUTTI_USER_MAKES_NO_MPI_CALLS`.
  bool user_makes_no_mpi_calls = false;
  /// [agreed] Results depend only on the values, their dtype and the number of ranks. They do not
  /// depend on timing, fusion, chunking or algorithm. `false` allows faster algorithms without this
  /// promise; there are none yet. `TUTTI_REPRODUCIBLE`.
  bool reproducible = true;
  /// [agreed] For the asynchronous types (`dist_async` and so on). Bounds how far a worker may be
  /// ahead: for each key, the servers have executed at most this many more pushes of this worker
  /// than of the slowest worker. A push that would be further ahead waits in the server.
  /// - Unset: no bound.
  /// - 0: the workers go together, as with `dist_sync`.
  /// - If it is set, every worker must push the same keys equally often. A worker that has left or
  ///   is lost holds nobody up.
  ///
  /// The variable takes a whole number up to 1,000,000, or "off". `TUTTI_STALENESS`.
  std::optional<int> staleness;
  /// The GPU of this process. CUDA numbers the GPUs that the process sees.
  ///
  /// Unset: the store chooses when its first GPU tensor comes. It takes the device whose context is
  /// current on the calling thread; if no context is current there, it takes the tensor's device. A
  /// store that has no GPU tensors never calls CUDA. Types without GPUs ignore this option.
  ///
  /// The variable takes a whole number from 0 on, or "auto". `TUTTI_GPU`.
  std::optional<int> gpu;
  /// After this time the store logs which ranks have not submitted a tensor that others have
  /// submitted. It logs again at doubling intervals. `TUTTI_STALL_SECONDS`.
  std::chrono::milliseconds stall_report_after{30'000};
  /// [agreed] After this time a tensor that some ranks have not submitted fails with `timeout` on
  /// all ranks. All ranks may call again. The default is long because rank 0 may be writing a
  /// checkpoint. In a parameter server's job, the scheduler's own value also bounds how long a
  /// barrier waits for a worker, and how long the servers may take to begin.
  /// `TUTTI_TIMEOUT_SECONDS`.
  std::chrono::milliseconds key_timeout{1'800'000};
  /// A rank is lost if its heartbeat is missing for this time. While ranks create a store or end, a
  /// rank on this machine is lost, too, if it is stopped for this time. `TUTTI_HEARTBEAT_SECONDS`.
  std::chrono::milliseconds heartbeat_timeout{30'000};
  /// The time that each step of `create` waits for the other ranks. Nothing can interrupt MPI_Init,
  /// so a process that waits in MPI_Init for this time ends. A server that keeps its state on disk
  /// has this time to read the state before it joins the job, and again before it comes back to it.
  /// `TUTTI_CREATE_SECONDS`.
  std::chrono::milliseconds create_timeout{300'000};
  /// The lowest level of messages that are logged: off, critical, error, warning, info, debug or
  /// trace. The log goes to stderr, unless `set_log_taker` sends it elsewhere. `TUTTI_LOG`.
  std::string log_level = "warning";
  /// [agreed] The file for the timeline of `dist_sync_mpi`, which records what happened to each
  /// tensor on each rank. ui.perfetto.dev and `scripts/timeline` read it. Empty: no timeline. Other
  /// types, and stores over one rank, record no timeline and log that.
  ///
  /// - The store writes the file when it closes. A later store of the process adds its number to
  ///   the name (trace.json, trace.2.json).
  /// - Each rank writes `<file>.<rank>.part` on its own host. Rank 0 merges the parts that it can
  ///   read, and names the others in the log.
  /// - The timeline takes 24 MiB of memory on each rank, and holds the rank's first million events.
  /// - `create` throws `invalid_argument` if it cannot write the file. A relative path begins in
  ///   the folder in which the process is at `create`.
  /// - If the disk fills up later, the store goes on. When it closes, it logs the path and the
  ///   reason, and removes the incomplete file.
  ///
  /// `TUTTI_TIMELINE`.
  std::string timeline;

  /// [agreed] While the ranks use the same keys again and again, they repeat the last cycle of
  /// batches without asking the coordinator. When a rank deviates from the cycle, the ranks ask the
  /// coordinator again. Off: the coordinator starts each tensor. `TUTTI_REPLAY`.
  bool replay = true;
  /// [agreed] The store fuses small tensors into batches of at most this many bytes. 0: it fuses
  /// none. Unset: 2 MiB on one node, 1 MiB between nodes. `TUTTI_FUSION_BYTES`.
  std::optional<std::size_t> fusion_bytes;
  /// [agreed] The store cuts tensors that are larger than this into parts of this many bytes, so
  /// that a more urgent tensor can overtake them. 0: it cuts none. Unset: 4 MiB on one node, 512
  /// KiB between nodes. `TUTTI_PART_BYTES`.
  std::optional<std::size_t> part_bytes;
  /// [agreed] A large tensor moves through shared memory in chunks, and the ranks of a node share
  /// the sum of a chunk: each of them sums a slice of this many bytes. Two ranks that are alone on
  /// one machine sum slices of 128 KiB at most. 0: the store chooses. `TUTTI_SLICE_BYTES`.
  std::size_t slice_bytes = 0;
};

}  // namespace tutti
