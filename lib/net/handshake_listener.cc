#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "net/handshake.h"
#include "net/handshake_wire.h"
#include "net/poller.h"
#include "net/sockets.h"

namespace tutti::net {
namespace {

using base::Clock;
using namespace handshake;
using namespace std::chrono_literals;

constexpr Clock::duration silence_limit = 5s;
constexpr std::size_t most_strangers = 256;

/// A connection that has proved nothing yet.
class Stranger {
 public:
  explicit Stranger(base::Fd socket) : socket_(std::move(socket)) {}

  const base::Fd& socket() const { return socket_; }
  Clock::time_point deadline() const { return deadline_; }
  bool has_spoken() const { return answered_; }
  int rank() const { return rank_; }

  /// Call it when something may have arrived. True: the caller has proved itself. Throws Error if
  /// it is not one of the expected ranks.
  bool advance(const Identity& me, const std::vector<int>& expected);
  ProvenPeer peer(const Identity& me) { return transcript(me).listeners_peer(std::move(socket_)); }
  void close() { socket_.reset(); }

 private:
  void answer(const Identity& me, const std::vector<int>& expected);
  Transcript transcript(const Identity& me) const { return {me, rank_, me.rank, callers_, mine_}; }

  base::Fd socket_;
  Clock::time_point deadline_ = Clock::now() + silence_limit;
  bool answered_ = false;
  Bytes buffer_;
  int rank_ = -1;
  Nonce callers_{};
  Nonce mine_{};
};

bool Stranger::advance(const Identity& me, const std::vector<int>& expected) {
  if (!answered_) {
    const bool whole = receive_towards(socket_, buffer_, hello_bytes);
    const std::size_t start = std::min(buffer_.size(), magic.size());
    if (as_text(ConstBytes(buffer_).first(start)) != magic.substr(0, start)) {
      throw Error(ErrorCode::internal, "it does not speak this protocol");
    }
    if (!whole) return false;
    answer(me, expected);
    answered_ = true;
    buffer_.clear();
  }
  if (!receive_towards(socket_, buffer_, mac_bytes)) return false;
  if (!equal(transcript(me).callers_proof(), buffer_)) {
    throw Error(ErrorCode::internal, "it does not know the job's secret");
  }
  return true;
}

void Stranger::answer(const Identity& me, const std::vector<int>& expected) {
  const ConstBytes hello(buffer_);
  rank_ = static_cast<int>(load_u32(hello.data() + magic.size()));
  if (std::find(expected.begin(), expected.end(), rank_) == expected.end()) {
    throw Error(ErrorCode::internal,
                fmt::format("it says that it is rank {}, which is not waited for", rank_));
  }
  std::ranges::copy(hello.last(nonce_bytes), callers_.begin());
  mine_ = random_nonce();
  Bytes reply(mine_.begin(), mine_.end());
  append(reply, transcript(me).listeners_proof());
  send_all(socket_, reply);
}

/// Logs connections that were refused, at a limited rate: a line for the 1st, 2nd, 4th, 8th and so
/// on, and one at the end for those after the last line.
class Refusals {
 public:
  Refusals(int rank, std::string when) : rank_(rank), when_(std::move(when)) {}
  ~Refusals() {
    if (count_ > said_) say();
  }
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  void add(const std::string& reason) {
    ++count_;
    last_reason_ = reason;
    if (std::has_single_bit(count_)) say();
  }

 private:
  void say() {
    said_ = count_;
    base::log().warn("rank {} has closed {} connection{} that came in{}{}: {}", rank_, count_,
                     count_ == 1 ? "" : "s", when_, count_ == 1 ? "" : ", the last one because",
                     last_reason_);
  }

  const int rank_;
  const std::string when_;
  std::size_t count_ = 0;
  std::size_t said_ = 0;
  std::string last_reason_;
};

class Reception {
 public:
  Reception(const base::Fd& listener, const Identity& me, std::vector<int> expected,
            const base::Patience& patience)
      : listener_(listener),
        me_(me),
        expected_(std::move(expected)),
        patience_(patience),
        refusals_(me.rank, patience.when()) {}

  std::vector<ProvenPeer> run() {
    while (!expected_.empty()) {
      patience_.look_now();
      if (patience_.over()) throw_missing();
      wait(patience_.next_look());
      for (Stranger& stranger : strangers_) talk_to(stranger);
      std::erase_if(strangers_, [](const Stranger& one) { return !one.socket(); });
      welcome();
    }
    return std::move(proven_);
  }

 private:
  void wait(Clock::time_point deadline) const;
  void welcome();
  void drop_oldest();
  void talk_to(Stranger& stranger);
  [[noreturn]] void throw_missing() const;

  const base::Fd& listener_;
  const Identity& me_;
  std::vector<int> expected_;
  const base::Patience& patience_;
  std::vector<Stranger> strangers_;  ///< in the order in which they came
  std::vector<ProvenPeer> proven_;
  Refusals refusals_;
};

void Reception::wait(Clock::time_point deadline) const {
  std::vector<pollfd> entries;
  for (const Stranger& stranger : strangers_) {
    deadline = std::min(deadline, stranger.deadline());
    entries.push_back({stranger.socket().get(), POLLIN, 0});
  }
  entries.push_back({listener_.get(), POLLIN, 0});
  if (::poll(entries.data(), entries.size(), milliseconds_until(deadline)) < 0 && errno != EINTR) {
    throw base::system_failure("wait for connections");
  }
}

/// Takes a batch at most, so that those who came are heard before others can push them out.
void Reception::welcome() {
  for (std::size_t taken = 0; taken < most_strangers / 2; ++taken) {
    base::Fd socket = accept_one(listener_);
    if (!socket) return;
    // Those who are waited for always have room.
    if (strangers_.size() >= most_strangers + expected_.size()) drop_oldest();
    strangers_.emplace_back(std::move(socket));
  }
}

/// Of those who have said nothing, if there are any, for a rank speaks at once.
void Reception::drop_oldest() {
  const auto silent =
      std::ranges::find_if(strangers_, [](const Stranger& one) { return !one.has_spoken(); });
  refusals_.add("it had proved nothing and others came");
  strangers_.erase(silent != strangers_.end() ? silent : strangers_.begin());
}

void Reception::talk_to(Stranger& stranger) {
  try {
    if (stranger.advance(me_, expected_)) {
      std::erase(expected_, stranger.rank());
      proven_.push_back(stranger.peer(me_));
    } else if (Clock::now() >= stranger.deadline()) {
      throw Error(ErrorCode::timeout, "it did not prove who it is within 5 s");
    }
  } catch (const Error& refusal) {
    refusals_.add(refusal.what());
    stranger.close();
  }
}

void Reception::throw_missing() const {
  throw Error(
      ErrorCode::timeout,
      fmt::format("rank {} gave up waiting for rank(s) {} to connect{}; are they running, and does "
                  "the network let them through?",
                  me_.rank, fmt::join(expected_, ", "), patience_.when()));
}

}  // namespace

std::vector<ProvenPeer> accept_peers(const base::Fd& listener, const Identity& me,
                                     std::vector<int> expected, const base::Patience& patience) {
  return Reception(listener, me, std::move(expected), patience).run();
}

}  // namespace tutti::net
