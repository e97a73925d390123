#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::mpi {

/// What a rank says of itself with each message of an all_gather, for those who may have come out
/// of step: see runtime/meeting.h.
struct Stamp {
  int attempt = 0;
  int step = 0;
  int stores = 0;
  int round = 0;  ///< of the all_gather's messages; filled in there
};

/// A communicator of tutti's own over all processes. Movable; freed when destroyed, unless
/// abandoned or MPI has been finalised before.
class Communicator {
 public:
  /// What a wait looks at besides MPI: throws when nobody will come any more. May be empty.
  using Look = std::function<void()>;

  /// This rank's stamp, and what looks at everyone's in each round, by rank, before texts are taken
  /// for what they should be; what it throws ends the all_gather. May be empty.
  struct Step {
    Stamp mine;
    std::function<void(const std::vector<Stamp>&)> check;
  };

  /// A copy of MPI_COMM_WORLD. Collective, blocking; throws `timeout` after `limit`, and what
  /// `look` throws. MPI cannot take back what was begun: the next call in this process goes on with
  /// it.
  static Communicator world(std::chrono::milliseconds limit, const Look& look = {});
  /// A copy of this one, the same way; but one that was not finished leaves MPI unfit for more.
  Communicator duplicate(std::chrono::milliseconds limit, const Look& look = {}) const;
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  int rank() const;
  int size() const;

  /// Everyone's text, by rank. Collective, blocking: sleeps between looks. Throws `timeout` with
  /// "waiting for <waiting_for>" after `limit`, and what `look` throws. One that was given up still
  /// counts: the others' next one belongs to this rank's next one.
  std::vector<std::string> all_gather(const std::string& mine, std::chrono::milliseconds limit,
                                      const std::string& waiting_for, const Look& look = {},
                                      const Step& step = {}) const;

  /// Whether MPI may be called by one thread after the other, not always by the same.
  bool may_use_any_thread() const;

  /// Lets MPI move what it still holds, though nothing is waited for here. Does not block.
  void progress() const;

  /// A peer is lost: freeing would wait for it, so never free it.
  void abandon();

  struct Handle;
  const Handle& handle() const { return *handle_; }

 private:
  explicit Communicator(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

/// Longer transfers travel as several messages of this size. Open MPI sends up to 64 KiB, its
/// header included, over TCP without asking the receiver first. Question and answer would queue
/// behind the data in both directions, so that links that are full both ways would carry little
/// more than half.
constexpr std::size_t message_bytes = std::size_t{60} << 10;

/// A set of transfers under way on one communicator, looked at together. One thread owns it.
///
/// Buffers must live until their transfer is done. A transfer should be no longer than some hundred
/// messages: each look costs time for every message under way.
class Requests {
 public:
  using Id = std::size_t;

  explicit Requests(const Communicator& communicator);
  /// Cancels receives, and waits a bounded time for sends; what then remains is abandoned to MPI.
  /// Nothing of it in a forked child: the transfers are the parent's.
  ~Requests();
  Requests(Requests&&) noexcept;
  Requests& operator=(Requests&&) = delete;

  /// Do not block. Ids are reused once `take_finished` has returned true for them.
  Id send(int to, int tag, std::span<const std::byte> data);
  Id receive(int from, int tag, std::span<std::byte> data);
  /// MPI_Testsome over everything under way. True when something finished. Does not block.
  bool progress();
  /// Whether a transfer has finished, as of the last `progress`; true forgets it.
  bool take_finished(Id id);
  bool empty() const;
  /// "receive of 1024 bytes from rank 2, send of 8 bytes to rank 0".
  std::string describe() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti::mpi
