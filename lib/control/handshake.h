#pragma once
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/patience.h"
#include "control/secret.h"

namespace tutti::control {

/// A connection whose other end has proved that it is `rank` of this job, and has been proved the
/// same. The keys are of this connection alone: nothing recorded from another one fits.
struct ProvenPeer {
  int rank = -1;
  base::Fd socket;
  Secret send_key{};
  Secret receive_key{};
};

/// Who this end is. `purpose` tells one kind of listener from another: a proof for one is of no use
/// at the other.
struct Identity {
  int rank = 0;
  Secret secret{};
  std::string purpose;
};

// The handshake: the caller sends its rank and a nonce; the listener answers with a nonce of its
// own and a proof over both; the caller sends its proof over both. Each end then knows that the
// other one has the secret now, not that it once recorded somebody who had.

/// The listening side. Takes connections until each rank of `expected` has proved itself; closes
/// and logs whoever says anything else, or nothing for 5 s. Throws `timeout` at the deadline,
/// naming the ranks that are missing, and what `patience` throws.
std::vector<ProvenPeer> accept_peers(const base::Fd& listener, const Identity& me,
                                     std::vector<int> expected, const base::Patience& patience);

/// The calling side: several ways to the same listener, each a socket that is connected or is being
/// connected and the address it leads to; the first that leads there is taken, the others are
/// closed. Throws `peer_lost` when none does, saying why, and `timeout`.
struct Way {
  base::Fd socket;
  std::string address;
};
ProvenPeer prove_to(std::vector<Way> ways, const Identity& me, int listener_rank,
                    const base::Patience& patience);

}  // namespace tutti::control
