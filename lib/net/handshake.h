#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/patience.h"
#include "net/secret.h"
#include "tutti/error.h"

namespace tutti::net {

/// A connection whose two ends have proved their identities to each other: the other end is `rank`
/// of this job. The keys belong to this connection alone, so nothing recorded from another one is
/// accepted.
struct ProvenPeer {
  int rank = -1;
  base::Fd socket;
  Secret send_key{};
  Secret receive_key{};
  bool encrypts = false;  ///< whether messages over it are encrypted
};

/// The identity of this end. `purpose` distinguishes kinds of listeners: a proof for one kind is
/// not valid for another. The names are for messages. Without them, "rank 3" talks to "rank 0".
struct Identity {
  int rank = 0;
  Secret secret{};
  std::string purpose;
  std::string name{};
  std::string name_of_listener{};
  /// Whether the messages after the handshake are encrypted. Both ends must want the same, or they
  /// refuse each other.
  bool encrypts = false;

  std::string describe() const { return name.empty() ? describe_rank(rank) : name; }
  std::string describe_listener(int listener) const {
    return name_of_listener.empty() ? describe_rank(listener) : name_of_listener;
  }

 private:
  static std::string describe_rank(int rank) { return "rank " + std::to_string(rank); }
};

// The handshake has three messages. The caller sends its rank, whether it encrypts, and a nonce.
// The listener answers with whether it encrypts, a nonce of its own, and a proof over all of that.
// The caller sends its own proof over all of that. Then each end knows that the other one has the
// secret now, and has not only recorded another process that had it.

/// The listening side. Accepts connections until each rank of `expected` has proved itself. Turns
/// others away, as `Reception` does. Throws `timeout` at the deadline, which names the missing
/// ranks, and the errors that `patience` throws.
std::vector<ProvenPeer> accept_peers(const base::Fd& listener, const Identity& me,
                                     std::vector<int> expected, const base::Patience& patience);

/// Thrown if a process answers that does not know the secret. The listener may come there later.
struct NotOfThisJob : Error {
  explicit NotOfThisJob(const std::string& message) : Error(ErrorCode::peer_lost, message) {}
};

/// An address at which the listener may be.
struct Candidate {
  base::Fd socket;  ///< connected to it, or being connected
  std::string address;
  std::string failure{};  ///< why there is no socket
};
/// Does the same as `start_connecting`. If an address cannot be reached, it is a candidate that has
/// failed. There may be others, or this one may lead to the listener later.
Candidate start_candidate(const std::string& address, std::uint16_t port,
                          const std::string& source);
/// The calling side. Takes the first candidate that leads to the listener, and closes the others.
/// Throws:
/// - `peer_lost` with the reason if none leads there, as `NotOfThisJob` if a process answers that
///   does not know the secret;
/// - `mismatch` if only one of the two ends encrypts;
/// - `timeout`.
ProvenPeer prove_to(std::vector<Candidate> candidates, const Identity& me, int listener_rank,
                    const base::Patience& patience);

}  // namespace tutti::net
