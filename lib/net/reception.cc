#include "net/reception.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/open_files.h"
#include "net/handshake_wire.h"
#include "net/poller.h"
#include "net/refusals.h"
#include "net/sockets.h"
#include "tutti/error.h"

namespace tutti::net {
namespace {

using base::Clock;
using namespace handshake;
using namespace std::chrono_literals;

constexpr Clock::duration silence_limit = 5s;
constexpr std::size_t most_strangers = 256;
/// The time until this process looks again whether it has room.
constexpr Clock::duration room_pause = 100ms;
/// During this time no connection is turned away for a later one, because a peer sends and answers
/// within it.
constexpr Clock::duration settling_time = 50ms;
/// The descriptors that strangers leave to the process, which also opens files and starts other
/// processes.
constexpr std::size_t kept_descriptors = 32;

/// The caller names a rank that is not expected.
class NotAwaited : public Error {
 public:
  explicit NotAwaited(int rank)
      : Error(ErrorCode::internal,
              fmt::format("it says that it is rank {}, but nobody waits for that rank", rank)),
        rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// A connection that has proved nothing yet.
class Stranger {
 public:
  explicit Stranger(base::Fd socket) : address_(peer_address(socket)), socket_(std::move(socket)) {}

  const base::Fd& socket() const { return socket_; }
  const std::string& address() const { return address_; }
  Clock::time_point deadline() const { return deadline_; }
  Clock::time_point settled() const { return deadline_ - silence_limit + settling_time; }
  bool has_spoken() const { return answered_; }

  /// Call this when something may have arrived. Returns true if the caller has proved itself.
  /// Throws Error if it is not one of the expected ranks.
  bool advance(const Identity& me, const Reception::Expects& expects);
  ProvenPeer peer(const Identity& me) {
    return Transcript(me, caller_, mine_).listeners_peer(std::move(socket_));
  }
  void close() { socket_.reset(); }

 private:
  void answer(const Identity& me, const Reception::Expects& expects);

  std::string address_;
  base::Fd socket_;
  Clock::time_point deadline_ = Clock::now() + silence_limit;
  bool answered_ = false;
  Bytes buffer_;
  HandshakeParameters caller_;
  HandshakeParameters mine_;
};

bool Stranger::advance(const Identity& me, const Reception::Expects& expects) {
  if (!answered_) {
    const bool whole = receive_towards(socket_, buffer_, hello_bytes);
    const std::size_t start = std::min(buffer_.size(), magic.size());
    if (as_text(ConstBytes(buffer_).first(start)) != magic.substr(0, start)) {
      throw Error(ErrorCode::internal, "it does not speak this protocol");
    }
    if (!whole) return false;
    answer(me, expects);
    answered_ = true;
    buffer_.clear();
  }
  if (!receive_towards(socket_, buffer_, mac_bytes)) return false;
  const Transcript transcript(me, caller_, mine_);
  if (!equal(transcript.callers_proof(), buffer_)) {
    throw Error(ErrorCode::internal, "it does not know the job's secret");
  }
  return true;
}

void Stranger::answer(const Identity& me, const Reception::Expects& expects) {
  const ConstBytes hello = ConstBytes(buffer_).subspan(magic.size());
  caller_ = {static_cast<int>(load_u32(hello.data())), load_u32(hello.data() + 4) != 0, {}};
  if (!expects(caller_.rank)) throw NotAwaited(caller_.rank);
  std::ranges::copy(hello.last(nonce_bytes), caller_.nonce.begin());
  mine_ = {me.rank, me.encrypts, random_nonce()};
  const Transcript transcript(me, caller_, mine_);
  Bytes reply;
  append_u32(reply, mine_.encrypts ? 1 : 0);
  append(reply, mine_.nonce);
  append(reply, transcript.listeners_proof());
  send_all(socket_, reply);
  // The caller learns from the answer that the two do not fit.
  if (const std::string why = transcript.disagreement(mine_); !why.empty()) {
    throw Error(ErrorCode::internal, why);
  }
}

}  // namespace

struct Reception::State {
  State(const base::Fd& at, Identity identity, Audience audience, const std::string& when)
      : listener(at),
        me(std::move(identity)),
        expects(std::move(audience.expects)),
        most(most_strangers + audience.count),
        waits_for_room(audience.waits_for_room),
        refusals(me.describe(), "that came in" + when) {}

  void welcome();
  bool take_one(std::size_t& known);
  bool is_full() const;
  bool make_room(std::size_t& known);
  void wait_for_room(const Error& lack);
  void pause(Clock::time_point until);
  bool is_pausing();
  std::optional<ProvenPeer> talk_to(Stranger& stranger);
  bool is_another_way(const Error& refusal) const;
  void refuse(Stranger& stranger, const Error& refusal);
  void close(Stranger& stranger);

  const base::Fd& listener;
  const Identity me;
  const Expects expects;
  const std::size_t most;
  const bool waits_for_room;
  bool has_said_that_room_lacks = false;
  std::optional<Clock::time_point> paused_until;  ///< the listener is not in the poller
  Poller poller;
  std::vector<Stranger> strangers;  ///< in the order in which they came
  std::set<int> come;               ///< the ranks that have proved themselves
  Refusals refusals;
};

Reception::Reception(const base::Fd& listener, Identity me, Audience audience,
                     const std::string& when)
    : state_(std::make_unique<State>(listener, std::move(me), std::move(audience), when)) {
  state_->poller.add(listener, 0);
}

Reception::~Reception() = default;

const base::Fd& Reception::descriptor() const {
  return state_->poller.descriptor();
}

std::optional<Clock::time_point> Reception::deadline() const {
  std::optional<Clock::time_point> by = state_->paused_until;
  // Connections came in this order, and all have the same time limit.
  if (!state_->strangers.empty()) {
    by = std::min(by.value_or(Clock::time_point::max()), state_->strangers.front().deadline());
  }
  return by;
}

std::vector<ProvenPeer> Reception::advance() {
  std::vector<ProvenPeer> proven;
  for (Stranger& stranger : state_->strangers) {
    if (auto peer = state_->talk_to(stranger)) proven.push_back(std::move(*peer));
  }
  std::erase_if(state_->strangers, [](const Stranger& one) { return !one.socket(); });
  state_->welcome();
  return proven;
}

bool Reception::State::is_pausing() {
  if (!paused_until) return false;
  if (Clock::now() < *paused_until) return true;
  paused_until.reset();
  poller.add(listener, 0);
  return false;
}

/// Callers wait at the listener.
void Reception::State::pause(Clock::time_point until) {
  poller.remove(listener);
  paused_until = until;
}

/// Strangers have not caused the lack.
void Reception::State::wait_for_room(const Error& lack) {
  if (!waits_for_room) throw lack;
  if (!std::exchange(has_said_that_room_lacks, true)) {
    base::log().warn("{} lets callers wait while it has no room: {}", me.describe(), lack.what());
  }
  pause(Clock::now() + room_pause);
}

/// Takes at most one batch, so that the connections that have come are heard before others can push
/// them out.
void Reception::State::welcome() {
  if (is_pausing()) return;
  std::size_t known = strangers.size();
  for (std::size_t taken = 0; taken < most_strangers / 2; ++taken) {
    if (!take_one(known)) return;
  }
}

/// Takes one connection. Returns false if nobody calls, or if callers have to wait. `known`
/// connections were there before this batch.
bool Reception::State::take_one(std::size_t& known) {
  try {
    if (is_full() && !make_room(known)) return false;
    base::Fd socket = accept_one(listener);
    if (!socket) return false;
    poller.add(socket, 0);
    strangers.emplace_back(std::move(socket));
    return true;
  } catch (const Error& lack) {
    if (!strangers.empty()) return make_room(known);
    wait_for_room(lack);
    return false;
  }
}

/// Expected ranks always have room, and in any case there is room for one connection at a time.
bool Reception::State::is_full() const {
  if (strangers.empty()) return false;
  return strangers.size() >= most || base::is_among_last(listener.duplicate(), kept_descriptors);
}

/// Turns away the oldest of the first strangers, which later ones may replace. If some have sent
/// nothing, it takes the oldest of these, because a peer sends at once. Returns false if they have
/// had no time yet; then callers wait until they have.
bool Reception::State::make_room(std::size_t& known) {
  const auto now = Clock::now();
  const auto end = strangers.begin() + static_cast<std::ptrdiff_t>(known);
  const auto silent =
      std::find_if(strangers.begin(), end, [](const Stranger& one) { return !one.has_spoken(); });
  const auto oldest = silent != end ? silent : strangers.begin();
  const auto settled = known == 0 ? now + settling_time : oldest->settled();
  if (now < settled) {
    pause(settled);
    return false;
  }
  refusals.add(oldest->address(), "it had proved nothing and others came");
  close(*oldest);
  strangers.erase(oldest);
  --known;
  return true;
}

void Reception::State::close(Stranger& stranger) {
  poller.remove(stranger.socket());
  stranger.close();
}

std::optional<ProvenPeer> Reception::State::talk_to(Stranger& stranger) {
  try {
    if (stranger.advance(me, expects)) {
      poller.remove(stranger.socket());
      ProvenPeer peer = stranger.peer(me);
      come.insert(peer.rank);
      return peer;
    }
    if (Clock::now() >= stranger.deadline()) {
      throw Error(ErrorCode::timeout, "it did not prove who it is within 5 s");
    }
  } catch (const Error& refusal) {
    refuse(stranger, refusal);
  }
  return std::nullopt;
}

/// Whether the refused connection is another way of a rank that has come. A process with several
/// networks tries all its ways to this one at the same time, and drops the slower ones. If a caller
/// refuses this process, it says so itself.
bool Reception::State::is_another_way(const Error& refusal) const {
  const auto* const not_awaited = dynamic_cast<const NotAwaited*>(&refusal);
  return refusal.code() == ErrorCode::peer_lost ||
         (not_awaited != nullptr && come.contains(not_awaited->rank()));
}

void Reception::State::refuse(Stranger& stranger, const Error& refusal) {
  if (is_another_way(refusal)) {
    base::log().debug("{} needs no other connection from {}: {}", me.describe(), stranger.address(),
                      refusal.what());
  } else {
    refusals.add(stranger.address(), refusal.what());
  }
  close(stranger);
}

}  // namespace tutti::net
