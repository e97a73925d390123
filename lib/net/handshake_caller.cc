#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "net/approach.h"
#include "net/handshake_wire.h"
#include "net/poller.h"
#include "net/sockets.h"

namespace tutti::net {
namespace {

using namespace handshake;

/// The state of the handshake with one candidate.
class Attempt {
 public:
  explicit Attempt(Candidate candidate) : candidate_(std::move(candidate)) {}

  const Candidate& candidate() const { return candidate_; }
  short waits_for() const { return greeted_ ? POLLIN : POLLOUT; }
  /// Call this when the socket is ready. Returns the peer once it has proved itself. Throws Error
  /// if the candidate does not lead to the listener.
  std::optional<ProvenPeer> advance(const Identity& me, int listener_rank);
  void close() { candidate_.socket.reset(); }

 private:
  void greet(const Identity& me);

  Candidate candidate_;
  bool greeted_ = false;
  HandshakeParameters mine_;
  Bytes answer_;
};

void Attempt::greet(const Identity& me) {
  check_connected(candidate_.socket);
  mine_ = {me.rank, me.encrypts, random_nonce()};
  Bytes hello;
  append(hello, as_bytes(magic));
  append_u32(hello, static_cast<std::uint32_t>(mine_.rank));
  append_u32(hello, mine_.encrypts ? 1 : 0);
  append(hello, mine_.nonce);
  send_all(candidate_.socket, hello);
  greeted_ = true;
}

std::optional<ProvenPeer> Attempt::advance(const Identity& me, int listener_rank) {
  if (!greeted_) {
    greet(me);
    return std::nullopt;
  }
  if (!receive_towards(candidate_.socket, answer_, answer_bytes)) return std::nullopt;
  const ConstBytes answer(answer_);
  HandshakeParameters listeners{listener_rank, load_u32(answer.data()) != 0, {}};
  std::ranges::copy(answer.subspan(4, nonce_bytes), listeners.nonce.begin());
  const Transcript transcript(me, mine_, listeners);
  if (!equal(transcript.listeners_proof(), answer.last(mac_bytes))) {
    throw NotOfThisJob("a process that does not know the job's key listens there");
  }
  if (const std::string why = transcript.disagreement(mine_); !why.empty()) {
    throw Error(ErrorCode::mismatch, why);
  }
  send_all(candidate_.socket, transcript.callers_proof());
  return transcript.callers_peer(std::move(candidate_.socket));
}

}  // namespace

class Approach::Search {
 public:
  Search(std::vector<Candidate> candidates, const Identity& me, int listener_rank)
      : me_(me), listener_rank_(listener_rank) {
    for (Candidate& candidate : candidates) {
      if (candidate.socket) {
        attempts_.emplace_back(std::move(candidate));
      } else {
        add_failure(candidate.address, candidate.failure);
      }
    }
  }

  ProvenPeer run(const base::Patience& patience) {
    for (;;) {
      patience.look_now();
      if (auto peer = advance(milliseconds_until(patience.next_look()), patience.when())) {
        return *std::move(peer);
      }
      if (patience.over()) throw_late(patience);
    }
  }

  /// Goes on with the attempts that become ready within this time. `when` is for errors.
  std::optional<ProvenPeer> advance(int milliseconds, const std::string& when) {
    if (attempts_.empty()) {
      throw_lost(fmt::format("{} found no way to {}{}:{}", me_.describe(),
                             me_.describe_listener(listener_rank_), when, failures_));
    }
    const std::vector<pollfd> ready = wait(milliseconds);
    for (std::size_t i = 0; i < ready.size(); ++i) {
      if (ready[i].revents == 0) continue;
      if (auto peer = advance(attempts_[i])) return peer;
    }
    std::erase_if(attempts_, [](const Attempt& one) { return !one.candidate().socket; });
    return std::nullopt;
  }

 private:
  std::vector<pollfd> wait(int milliseconds) const {
    std::vector<pollfd> entries;
    for (const Attempt& one : attempts_) {
      entries.push_back({one.candidate().socket.get(), one.waits_for(), 0});
    }
    if (::poll(entries.data(), entries.size(), milliseconds) < 0) {
      if (errno != EINTR) throw base::system_failure("wait for a connection");
      return {};
    }
    return entries;
  }

  std::optional<ProvenPeer> advance(Attempt& attempt) {
    try {
      return attempt.advance(me_, listener_rank_);
    } catch (const Error& failure) {
      if (failure.code() == ErrorCode::mismatch) code_ = ErrorCode::mismatch;
      met_stranger_ = met_stranger_ || dynamic_cast<const NotOfThisJob*>(&failure) != nullptr;
      add_failure(attempt.candidate().address, failure.what());
      attempt.close();
      return std::nullopt;
    }
  }

  void add_failure(const std::string& address, const std::string& why) {
    failures_ += fmt::format(" {}: {};", address, why);
  }

  [[noreturn]] void throw_lost(const std::string& text) const {
    if (code_ == ErrorCode::peer_lost && met_stranger_) throw NotOfThisJob(text);
    throw Error(code_, text);
  }

  [[noreturn]] void throw_late(const base::Patience& patience) const {
    std::string tried;
    for (const Attempt& one : attempts_) tried += " " + one.candidate().address;
    throw Error(ErrorCode::timeout,
                fmt::format("{} gave up waiting for {} to answer at{}{};{} is it running, "
                            "and does the network let it through?{}",
                            me_.describe(), me_.describe_listener(listener_rank_), tried,
                            patience.when(), failures_, patience.advice()));
  }

  const Identity me_;
  const int listener_rank_;
  std::vector<Attempt> attempts_;
  std::string failures_;
  ErrorCode code_ = ErrorCode::peer_lost;
  bool met_stranger_ = false;
};

Approach::Approach(std::vector<Candidate> candidates, const Identity& me, int listener_rank)
    : search_(std::make_unique<Search>(std::move(candidates), me, listener_rank)) {}
Approach::~Approach() = default;
Approach::Approach(Approach&&) noexcept = default;
Approach& Approach::operator=(Approach&&) noexcept = default;

std::optional<ProvenPeer> Approach::advance() {
  return search_->advance(0, "");
}

Candidate start_candidate(const std::string& address, std::uint16_t port,
                          const std::string& source) {
  try {
    return {start_connecting(address, port, source), address};
  } catch (const Error& failure) {
    if (failure.code() != ErrorCode::peer_lost) throw;
    return {{}, address, failure.what()};
  }
}

ProvenPeer prove_to(std::vector<Candidate> candidates, const Identity& me, int listener_rank,
                    const base::Patience& patience) {
  return Approach(std::move(candidates), me, listener_rank).search_->run(patience);
}

}  // namespace tutti::net
