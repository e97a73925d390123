#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "p2p/eager_sends.h"
#include "p2p/frame.h"
#include "p2p/given_up.h"
#include "p2p/looks.h"
#include "tutti/error.h"

namespace tutti::p2p {

/// A send or a receive, as this rank calls it.
struct Envelope {
  /// The other rank. For a receive it may be `any_peer`.
  int peer = 0;
  int tag = 0;
  DType dtype = DType::f32;
  std::uint64_t count = 0;

  std::size_t bytes() const { return count * size_of(dtype); }
};
constexpr int any_peer = -1;

/// An action that the owner of an Endpoint must take. Actions come in their order.
struct Post {
  Frame frame;
  std::optional<TransferId> with{};  ///< the elements of this call go along
  int to = 0;
};
/// Send the elements of this call, after the frames that were posted before.
struct MoveOut {
  int to = 0;
  TransferId call = 0;
};
/// Receive the elements of this call. They are the next ones that come from that rank.
struct MoveIn {
  int from = 0;
  TransferId call = 0;
};
/// Take these elements, which belong to this receive.
struct Take {
  TransferId call = 0;
  Payload elements;
};
/// The call is over.
struct TransferDone {
  TransferId call = 0;
  int peer = any_peer;  ///< the rank from which a receive's elements came
  std::optional<Error> error{};
};
using TransferAction = std::variant<Post, MoveOut, MoveIn, Take, TransferDone>;

/// One rank's side of the protocol by which two ranks pass a tensor: a plain value, driven by one
/// thread. It has no clock: events happen at the time of the last `pass_time`. After any event, the
/// owner takes the actions.
///
/// A rank announces a send to its receiver. The elements move once the receiver has called a
/// receive of the same tag. Sends and receives between two ranks meet in the order in which they
/// were called. A receive from any rank takes the send that was announced first. The receiver says
/// when it has everything, and so each call ends on both ranks.
///
/// The elements of a small send go along with its announcement, if all other elements that this
/// rank has sent to that rank have arrived. The receiver keeps them until a receive comes. Its
/// answer must come before the sender gives the send up, because otherwise the two calls would end
/// differently. So a receiver that hears late of such a send first asks whether it still stands.
///
/// A call that is given up keeps its place in that order, and its counterpart ends with the same
/// error. Otherwise the counterpart would take the elements that were meant for another call. A
/// send that was given up counts as announced before those that wait. A receive from any rank that
/// was given up ends the next send of its tag, whichever rank makes it.
class Endpoint {
 public:
  /// `limit` is how long a call waits for the other rank's call. Once the calls have met, it is
  /// also how long they wait for elements to move, but then at least a minute.
  Endpoint(int rank, int size, SessionTime limit);

  /// Call this first when time has passed.
  void pass_time(SessionTime now) { now_ = now; }
  void send(TransferId call, const Envelope& envelope);
  void receive(TransferId call, const Envelope& envelope);
  /// Takes in a frame that has arrived. Frames of a rank that has left are late, and mean nothing.
  /// Throws `internal` if no endpoint sends such a frame. `elements` are those of an eager send,
  /// which was posted at `posted_after` at the earliest.
  void hear(int from, const Frame& frame, Payload elements = {}, SessionTime posted_after = {});
  /// Notes that some elements have moved on to that rank, or have come from there.
  void note_sent(int to) { peer(to).sent_at = now_; }
  void note_received(int from) { peer(from).received_at = now_; }
  /// Notes that the elements of a `MoveIn` have come.
  void note_arrived(TransferId call);
  /// Notes that the rank has left the store. Call this after `hear` for everything that has come
  /// from it. If frames may still be on their way, call it only for a rank from which no frame has
  /// come: the last frame of another rank is `left`.
  void note_departed(int rank);
  /// Closes this rank's store. Calls that have not met fail with `aborted`, and the others go on.
  /// An eager send ends once its receiver says whether it has met, or after a moment.
  void close();
  /// Whether `close` was called, every call is over, and the other ranks know it.
  bool has_left() const { return left_; }
  /// Gives up the calls that have waited too long. Call this after `hear` for everything that has
  /// come.
  void give_up_late_calls();
  /// Throws `timeout`, which names the other rank, if calls have met but none of their elements
  /// have moved for that time. Such a call cannot be given up alone, because the elements of the
  /// next call between the two ranks follow its own. Call this after all `note_sent` and
  /// `note_received`.
  void check_transfers() const;
  /// The time by which to call `give_up_late_calls` and `check_transfers`.
  std::optional<SessionTime> next_tick() const;

  std::vector<TransferAction> take_actions();

  /// Whether a call waits for this rank, or moves elements to or from it.
  bool needs(int rank) const;
  bool empty() const { return sends_.empty() && receives_.empty(); }
  /// Whether any frame has come from that rank. If so, its last frame is `left`.
  bool has_heard(int rank) const { return peer(rank).heard; }
  /// The bytes of elements that no receive has taken.
  std::size_t kept_bytes() const { return kept_bytes_; }
  /// Describes, for the report of a hang, which call waits for which rank.
  std::string describe() const;

 private:
  struct Peer {
    std::uint64_t next_number = 0;
    bool heard = false;
    bool addressed = false;  ///< has been posted a frame
    bool gone = false;
    std::size_t moving = 0;  ///< the sends to it whose elements move, without eager sends
    SessionTime sent_at{};   ///< the time at which elements last moved there
    SessionTime received_at{};
  };
  struct Send {
    TransferId call = 0;
    Envelope envelope;
    std::uint64_t number = 0;
    SessionTime since{};
    std::optional<SessionTime> met_at{};  ///< when a receive has come for it
    bool eager = false;
    /// The time at which this rank took an eager send back. The receiver has not said whether that
    /// was in time.
    std::optional<SessionTime> cancelled_at{};
  };
  struct Receive {
    TransferId call = 0;
    Envelope envelope;
    SessionTime since{};
    int from = any_peer;  ///< the rank whose send it has met
    std::uint64_t number = 0;
    SessionTime met_at{};
    /// The elements of an eager send that this receive has met. They are kept until the sender says
    /// that the send still stands.
    std::optional<Payload> elements{};

    bool has_met() const { return from != any_peer; }
  };
  /// A send of another rank that no receive has met.
  struct Arrival {
    int from = 0;
    Frame frame;
    Payload elements;  ///< those of an eager send
    SessionTime posted_after{};
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  void post(int to, Frame::Kind kind, std::uint64_t number, const Envelope& envelope = {});
  void finish(TransferId call, int peer, std::optional<Error> error = std::nullopt);
  std::deque<Send>::iterator find_send(int to, std::uint64_t number);
  std::deque<Receive>::iterator find_receive(int from, std::uint64_t number);

  bool may_be_eager(const Envelope& envelope) const;
  void hear_send(Arrival arrival);
  void hear_answer(int from, const Frame& frame);
  void hear_ready(Send& send);
  void hear_go(int from, const Frame& frame);
  void hear_revocation(int from, const Frame& frame);
  Arrival take(const std::deque<Arrival>::iterator& arrival);
  /// Lets the receive meet the first arrival that it may take, if there is one. Returns false if
  /// the receive is over.
  bool meet_first(Receive& receive);
  /// Lets the two meet. Returns false if the receive is over: because the two differ, or because it
  /// already has the elements.
  bool meet(Receive& receive, Arrival arrival);
  /// Whether the sender cannot have given the send up yet.
  bool is_recent(const Arrival& arrival) const;
  void give(const Receive& receive, int from, std::uint64_t number, Payload elements);
  void give_up(const Send& send);
  /// Ends a receive because the send that it would have met was given up.
  void finish_with(const Receive& receive, int from);
  /// The time at which the call has waited too long for the other call, or for elements to move.
  SessionTime due(const Send& send) const;
  SessionTime due(const Receive& receive) const;
  void leave_if_done();
  bool is_anybody_left() const;

  std::string name_of(const Send& send) const;
  std::string name_of(const Receive& receive) const;

  int rank_;
  int size_;
  SessionTime limit_;
  SessionTime stall_limit_;  ///< the time within which elements must move
  SessionTime now_{};
  std::vector<Peer> peers_;
  std::deque<Send> sends_;        ///< in the order of the calls
  std::deque<Receive> receives_;  ///< in the order of the calls
  std::deque<Arrival> arrivals_;  ///< in the order of arrival
  std::size_t kept_bytes_ = 0;    ///< the bytes of the elements that came with them
  EagerSends eager_sends_;
  GivenUp given_up_sends_;     ///< sends to this rank that other ranks gave up
  GivenUp given_up_receives_;  ///< by this rank
  bool closing_ = false;
  bool left_ = false;
  std::vector<TransferAction> actions_;
};

}  // namespace tutti::p2p
