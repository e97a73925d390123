#pragma once
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/patience.h"

namespace tutti::control {

// All sockets are non-blocking; all throw `internal` for what is not described, and those that wait
// what their patience throws.

/// A Unix socket in the abstract name space: no file, gone with its last descriptor, and visible in
/// one network namespace only. Keeps message boundaries and passes descriptors.
base::Fd listen_abstract(const std::string& name);

enum class Reached { connected, busy, nobody };
/// `busy`: somebody listens, but too many wait to be accepted; try again later.
struct AbstractPeer {
  Reached reached = Reached::nobody;
  base::Fd socket;
};
AbstractPeer connect_abstract(const std::string& name);
/// Waits while somebody listens but is busy. Throws `timeout` or `internal`.
base::Fd connect_abstract(const std::string& name, const std::string& who,
                          const base::Patience& patience);

/// `file` goes along as a descriptor of the receiver's own. Throws `timeout` or `internal`; `who`
/// names the other end in the message.
void send_descriptor(const base::Fd& socket, const base::Fd& file, const std::string& who,
                     const base::Patience& patience);
base::Fd receive_descriptor(const base::Fd& socket, const std::string& who,
                            const base::Patience& patience);

/// Listens on a free TCP port of the numeric `address`; without one, of every address of the family
/// (IPv4 or IPv6) that `like` is of.
base::Fd listen_tcp(const std::string& address);
base::Fd listen_tcp_everywhere(const std::string& like);
std::uint16_t port_of(const base::Fd& listener);

/// Starts to connect; the socket becomes writable when that has succeeded or failed. `source`: the
/// local address to connect from; empty: the system's choice.
base::Fd start_connecting(const std::string& address, std::uint16_t port,
                          const std::string& source);
/// Throws `peer_lost` when connecting has failed.
void check_connected(const base::Fd& socket);

/// Nothing to accept at the moment: an empty descriptor.
base::Fd accept_one(const base::Fd& listener);

/// No delay for small frames, and a peer that acknowledges nothing for 3 s is gone.
void tune_link(const base::Fd& socket);

/// False: the deadline passed first.
bool wait_readable(const base::Fd& fd, const base::Patience& patience);
bool wait_writable(const base::Fd& fd, const base::Patience& patience);

}  // namespace tutti::control
