#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti::mpi {

/// The progress of a rank. Each message of an all_gather carries it, so that ranks that are out of
/// step notice it; see runtime/meeting.h.
struct Stamp {
  int attempt = 0;
  int step = 0;
  int stores = 0;
  int round = 0;  ///< the number of the message of the all_gather, which fills this in
};

/// A communicator of tutti's own over all processes. Movable. The destructor frees it, unless it
/// was abandoned or MPI has been finalised.
class Communicator {
 public:
  /// Called again and again during a wait. It throws if the wait is in vain, such as when a rank is
  /// lost. It may be empty.
  using Look = std::function<void()>;

  /// This rank's stamp, and a check of the stamps of all ranks, by rank. `check` is called in each
  /// round before the texts are used; if it throws, the all_gather ends. It may be empty.
  struct Step {
    Stamp mine;
    std::function<void(const std::vector<Stamp>&)> check;
  };

  /// A copy of MPI_COMM_WORLD. Collective and blocking. Throws `timeout` after `limit`, and the
  /// errors that `look` throws. MPI cannot cancel the copy: after a throw, the next call in this
  /// process continues it.
  static Communicator world(std::chrono::milliseconds limit, const Look& look = {});
  /// A communicator over these ranks of MPI_COMM_WORLD, in this order. The caller must be one of
  /// them. Collective over these ranks only; otherwise like `world`. MPI's own call for it polls,
  /// so a rank that waits in it keeps a processor busy. If possible, call it when all ranks have
  /// come. Below MPI_THREAD_MULTIPLE nothing interrupts that call, and `limit` has no effect.
  static Communicator group(const std::vector<int>& world_ranks, std::chrono::milliseconds limit,
                            const Look& look = {});
  /// A copy of this communicator. Like `world`, but after a throw nothing continues the copy, and
  /// no further store can be created over MPI.
  Communicator duplicate(std::chrono::milliseconds limit, const Look& look = {}) const;
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  int rank() const;
  int size() const;

  /// Gathers the text of every rank, by rank. Collective and blocking; it sleeps between calls of
  /// MPI. Throws `timeout`, "waited ... for <waiting_for>", if one of its rounds takes longer than
  /// `limit`. Also throws the errors of `look` and `step.check`. An all_gather that was given up
  /// still counts: this rank's next all_gather matches the next one of the others.
  std::vector<std::string> all_gather(const std::string& mine, std::chrono::milliseconds limit,
                                      const std::string& waiting_for, const Look& look = {},
                                      const Step& step = {}) const;

  /// Whether different threads may call MPI, one at a time (MPI_THREAD_SERIALIZED or higher).
  bool may_use_any_thread() const;

  /// Lets MPI make progress on messages that it still holds, although this rank waits for nothing.
  /// Does not block.
  void progress() const;

  /// Sends every other rank a text of at most 1 KiB, before this rank gives up. It may be called
  /// once in a communicator's life. Does not block, and does not wait until the text arrives.
  void tell_others(const std::string& text) const;
  /// Returns the first text that another rank has sent, and from then on always the same text. Does
  /// not block.
  std::optional<std::string> receive_last_words() const;

  /// Keeps memory that transfers use, as long as the communicator lives. If a transfer is given up
  /// and MPI still makes it, that memory is never destroyed.
  void hold(std::shared_ptr<const void> memory);

  /// Call this when a rank is lost. The destructor then does not free the communicator, because
  /// that would wait for the rank.
  void abandon();

  struct Handle;
  const Handle& handle() const { return *handle_; }

 private:
  explicit Communicator(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

/// Longer transfers are split into messages of this size. It stays below Open MPI's eager limit
/// over TCP, 64 KiB with the header. Larger messages need a rendezvous, whose messages would queue
/// behind the data in both directions: links that are full both ways would carry little more than
/// half.
constexpr std::size_t message_bytes = std::size_t{60} << 10;

/// The transfers under way on one communicator, which are tested together. One thread owns it.
///
/// Buffers must live until their transfer is done. A transfer should have no more than some hundred
/// messages, because each test costs time for every message under way.
class Requests {
 public:
  using Id = std::size_t;

  explicit Requests(const Communicator& communicator);
  /// Cancels receives, and waits for at most 0.5 s for transfers that MPI is making. If some are
  /// left then, MPI keeps them, and nobody ever destroys the memory that was passed to this `hold`
  /// and to the communicator's. Does nothing in a forked child, because the transfers belong to the
  /// parent.
  ~Requests();
  Requests(Requests&&) noexcept;
  Requests& operator=(Requests&&) = delete;

  /// Keeps buffers of transfers until this object is destroyed, and as long as MPI needs them. MPI
  /// may read and write them whenever any thread calls it.
  void hold(std::shared_ptr<const void> buffers);
  /// Both start a transfer and do not block. An id is used again once `take_finished` has returned
  /// true for it.
  Id send(int to, int tag, std::span<const std::byte> data);
  Id receive(int from, int tag, std::span<std::byte> data);
  /// Tests all messages under way (MPI_Testsome). Returns true if one has finished. Does not block.
  bool progress();
  /// Whether a transfer had finished at the last `progress`. If so, the id is free again.
  bool take_finished(Id id);
  bool empty() const;
  /// Describes the transfers: "receive of 1024 bytes from rank 2, send of 8 bytes to rank 0".
  std::string describe() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti::mpi
