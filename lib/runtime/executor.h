#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collective/engine.h"
#include "control/control_plane.h"
#include "coordinator/participant.h"
#include "mpi/communicator.h"
#include "observe/flight_recorder.h"
#include "observe/timeline.h"
#include "runtime/call_table.h"
#include "runtime/device_side.h"
#include "runtime/flush_timer.h"
#include "runtime/inbox.h"
#include "runtime/loss_log.h"
#include "runtime/peer_side.h"
#include "runtime/waiter.h"

namespace tutti::runtime {

/// Counts of the store's work. Any thread may read them.
struct Tally {
  std::atomic<std::uint64_t> tensors_reduced{0}, bytes_reduced{0};
  std::atomic<std::uint64_t> tensors_broadcast{0}, bytes_broadcast{0};
  std::atomic<std::uint64_t> tensors_gathered{0}, bytes_gathered{0};
  std::atomic<std::uint64_t> batches{0}, bytes_between_nodes{0};
  std::atomic<std::size_t> engine_bytes{0};      ///< held by the engine
  std::atomic<std::size_t> device_bytes{0};      ///< staging memory for tensors on a GPU
  std::atomic<std::size_t> peer_bytes{0};        ///< held for calls between two ranks
  std::atomic<std::uint64_t> bytes_to_peers{0};  ///< bytes of such calls between nodes

  /// Counts a completed call.
  void count(const coordinator::Signature& signature);
};

/// Code of the program that must run: the deleters of a call's tensors and then its callbacks, or
/// only the callbacks. It may block, or call the store.
struct Due {
  std::shared_ptr<base::Completion> completion;
  /// The call to settle after its tensors are gone; null: it is settled.
  TensorCall* call = nullptr;
  std::exception_ptr error;  ///< the error with which to settle it

  void run();
};

/// The progress engine of a rank. It passes submissions and the coordinator's messages to the
/// participant, carries out the participant's actions, and drives gates and data.
///
/// One thread at a time uses it; `ProgressLock` sees to that. Other threads reach it only through
/// `inbox` and `tally`. Nothing here blocks or throws. An error reaches every waiter.
class Executor {
 public:
  /// With several nodes, a thread that waits moves only batches up to this size itself.
  static constexpr std::size_t worth_driving = std::size_t{256} << 10;

  Executor(Place place, const coordinator::Settings& settings, control::ControlPlane& control,
           collective::Engine& engine, const mpi::Communicator* data, Inbox& inbox,
           LossLog& loss_log, Tally& tally, observe::Timeline& timeline, DeviceSide& device,
           PeerSide& peers);

  /// Looks once at everything that may have changed. Returns true if something moved.
  bool pass();
  /// Whether a thread that has submitted should make a pass itself. If not, the communication
  /// thread makes it: until it is awake, the program may submit more calls, and one report takes
  /// them all.
  bool may_accept() const;
  /// A short pass for a thread that has submitted. It does the same as `pass`, but moves only data
  /// that can move at once. Returns true if more may move at once.
  bool accept();
  /// Whether this rank has entered a gate whose batch is not done.
  bool has_open_batch() const { return !running_.empty(); }
  /// Whether no call with a key is in flight and no batch is open. Then data of other ranks changes
  /// nothing here.
  bool is_idle() const { return calls_.empty() && running_.empty(); }
  /// Whether something must be polled. Then it is not enough to wait for the bell.
  bool is_busy() const;
  /// Whether the last pass left something to the next one for which no bell rings. That is a gate
  /// at which others may have been when this rank entered it, or the question who waits.
  bool has_leftovers() const {
    return has_unseen_gate_ || (moved_ && participant_.is_asking_who_waits());
  }
  /// After a pass in which nothing moved: the events for which the thread may wait, and until when.
  /// If a stall is due, logs it.
  struct Rest {
    Waiter::For reason = Waiter::For::doorbell;
    base::Clock::time_point until;
  };
  Rest prepare_rest();
  /// The time of the last pass.
  base::Clock::time_point looked_at() const { return looked_at_; }
  /// Whether code of the program is due. The communication thread runs it, outside the progress
  /// lock.
  bool has_dues() const { return !dues_.empty(); }
  /// Swaps the due code into `into`, which must be empty. Its memory is used again.
  void take_dues(std::vector<Due>& into) { std::swap(dues_, into); }

  /// Whether user threads may move the executor: the store does not call MPI, or any thread may
  /// call MPI.
  bool may_use_any_thread() const { return may_use_any_thread(data_); }
  bool has_several_nodes() const { return data_ != nullptr; }
  static bool may_use_any_thread(const mpi::Communicator* data) {
    return data == nullptr || data->may_use_any_thread();
  }
  /// Whether large batches are moving between nodes, or tensors on a GPU. A batch between nodes
  /// takes so long that passing the progress lock to a user thread costs more than it saves. A user
  /// thread must not move tensors on a GPU.
  bool has_long_transfer() const;
  /// Notes that the calling thread is the communication thread. Only this thread moves tensors on a
  /// GPU.
  void note_own_thread() { own_thread_ = std::this_thread::get_id(); }
  /// Whether this rank has departed, or a rank is lost.
  bool is_finished() const { return finished_; }
  /// Whether a rank is lost, or this one has failed. Then MPI must not be finalised. Thread-safe.
  bool is_lost() const { return lost_.load(std::memory_order_acquire); }

 private:
  /// A batch from its gate to its end. Owns the lists that `batch` points to.
  struct RunningBatch {
    coordinator::LocalBatch plan;
    collective::Batch batch;
    std::vector<const void*> ins;  ///< of all parts, one after the other
    std::vector<void*> outs;
    bool gate_closed = false;
    bool issued = false;  ///< whether its last copies to outputs on a GPU are issued
  };

  bool run_guarded(const std::function<bool()>& work);
  bool look_around();
  void fail(const std::exception& error);
  bool take_submissions();
  bool take_mail();
  bool take_loss();
  bool tick();
  bool note_waits();
  bool move_between_peers();
  bool depart_when_peers_allow();
  void submit(Submission& submission);
  void submit(const std::shared_ptr<CallList>& list);

  bool apply_actions();
  void apply(coordinator::Send& action);
  void apply(coordinator::Enter& action);
  void apply(coordinator::Withdraw& action);
  void apply(coordinator::CloseGate& action);
  void apply(coordinator::Finish& action);
  void apply(coordinator::JoinDone& action);
  void apply(coordinator::DepartDone& action);
  void apply(coordinator::PeerLost& action);
  void apply(coordinator::Notice& action);

  bool advance();
  bool look_at_gate();
  /// Starts the next batch. `at_once` says that its gate closed in the same pass.
  bool start_next(bool at_once);
  bool move_data();
  std::unique_ptr<RunningBatch> prepare(coordinator::LocalBatch plan);
  void point_to_tensors(RunningBatch& running);
  void lay_out_parts(RunningBatch& running) const;
  /// The ends for the next batch of tensors on a GPU.
  collective::Ends& device_ends();
  /// Whether this thread may move the batches whose gates it has entered.
  bool may_move();
  /// Throws if an error has struck a transfer between GPUs, or if the GPU has neither finished a
  /// copy nor failed within the time limit.
  void check_device() const;
  /// Notes the calls whose last copies to outputs on a GPU have been issued.
  void note_issued();
  /// After a failure, waits a moment until the GPU neither reads nor writes the calls' tensors. If
  /// it still may, the tensors are never freed.
  void drain_device();
  void keep_tensors_for_good();
  void record_submission(const CallList& list, coordinator::CallId id, std::uint32_t row,
                         const TensorCall& call);
  void record_plan(const coordinator::ToRank& message);
  void record_entry(const RunningBatch& running);
  /// Completes a sharded batch. This part is its only one.
  void shard_out(collective::Batch& batch, const coordinator::LocalPart& part) const;
  void note_sent();
  /// Calls MPI from time to time, so that MPI sends the bytes that it may still hold.
  void flush();

  void finish(const CallTable::Entry& entry, const std::exception_ptr& error);
  void end(const std::shared_ptr<base::Completion>& completion, TensorCall& call,
           const std::exception_ptr& error);
  void end(const std::shared_ptr<CallList>& list, TensorCall& call,
           const std::exception_ptr& error);
  void end(const std::shared_ptr<PeerCall>& call, const std::exception_ptr& error);
  void end_peer_calls(const std::exception_ptr& error);
  void release_finished(const std::vector<coordinator::Action>& actions);
  void settle(const std::shared_ptr<base::Completion>& completion, const std::exception_ptr& error);
  void settle(const Submission& submission, const std::exception_ptr& error);
  std::exception_ptr pointer_to(const std::optional<Error>& error) const;
  void fail_everything(const std::exception_ptr& error);
  std::string in_flight_text() const;
  /// The text that lists the calls between two ranks in flight, to follow `in_flight_text`. Empty
  /// if there are none.
  std::string peer_flight_text() const;
  /// The text that says which calls are in flight, and for what they wait.
  std::string stalled_text() const;
  /// The text that says for what the calls of all ranks wait.
  std::string wait_text() const;
  /// Whether a call of the user is still unanswered.
  bool has_waiting_user() const;
  /// Whether rank 0 logs by itself for which ranks this one waits, so that a line of this rank
  /// would only repeat that. Not in a long stall: something may keep rank 0 from it.
  bool may_leave_it_to_rank_0() const;
  /// If nothing has moved for the stall time although a call waits, logs which calls wait for which
  /// ranks.
  void report_stall();
  /// The time of the last pass since the start.
  coordinator::Time now() const;

  const Place place_;
  coordinator::Participant participant_;
  control::ControlPlane& control_;
  collective::Engine& engine_;
  const mpi::Communicator* data_;  ///< null on one node
  Inbox& inbox_;
  LossLog& loss_log_;
  Tally& tally_;
  observe::Timeline& timeline_;
  DeviceSide& device_;
  PeerSide& peers_;
  bool uses_device_ = false;  ///< some batch was of tensors on a GPU
  std::thread::id own_thread_;
  const base::Clock::time_point start_ = base::Clock::now();
  base::Clock::time_point looked_at_ = start_;

  std::vector<Submission> taken_;  ///< out of the inbox
  CallTable calls_;
  std::vector<const TensorCall*> released_;  ///< for the inbox
  std::optional<JoinCall> join_;
  std::optional<DepartCall> depart_;
  bool departing_ = false;  ///< the participant knows of it
  /// The batches in the order of the plan: first those that move data, and then at most one whose
  /// gate is open.
  std::vector<std::unique_ptr<RunningBatch>> running_;
  /// Batches to be used again, with the memory that they have.
  std::vector<std::unique_ptr<RunningBatch>> spare_;
  std::size_t moving_ = 0;  ///< the number of batches at the front of `running_` that move
  observe::FlightRecorder recorder_;
  const coordinator::Time stall_time_;
  const coordinator::Time key_timeout_;
  coordinator::Time stall_interval_;  ///< until the next report; doubles
  coordinator::Time last_move_{0};
  FlushTimer flush_timer_;   ///< for MPI between nodes; on one node it does nothing
  bool moved_ = false;       ///< something, in the last pass
  bool gate_moved_ = false;  ///< whether a gate moved in the last pass, though it did not close
  std::vector<Due> dues_;
  bool finished_ = false;
  bool loss_told_ = false;
  std::atomic<bool> lost_{false};
  bool has_unseen_gate_ = false;  ///< entered since the last look at a gate
  bool owes_actions_ = false;  ///< the participant has heard of something since they were applied
  std::vector<coordinator::Action> actions_;  ///< empty; memory that `take_actions` uses again
  std::exception_ptr own_failure_;            ///< why this rank is the lost one
  std::vector<std::byte> mail_;
};

}  // namespace tutti::runtime
