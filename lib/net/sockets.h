#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/patience.h"

namespace tutti::net {

// All sockets are non-blocking. Where nothing else is said, failures throw `internal`. Functions
// that wait also throw what their `patience` throws.

/// A Unix socket in the abstract name space. It needs no file, ends with its last descriptor, and
/// is visible in one network namespace only. It keeps message boundaries and can pass descriptors.
base::Fd listen_abstract(const std::string& name);

/// The same as a stream of bytes, for links to processes of this machine.
base::Fd listen_nearby(const std::string& name);
/// Connects to a process of this user. Returns an empty descriptor if none listens there.
base::Fd connect_nearby(const std::string& name);
/// Whether the other end is on this machine; and, for such a socket, whether it belongs to this
/// user.
bool is_nearby(const base::Fd& socket);
bool is_same_user(const base::Fd& socket);

enum class Reached { connected, busy, nobody };
/// `busy`: somebody listens, but the queue of connections to accept is full; try again later.
struct AbstractPeer {
  Reached reached = Reached::nobody;
  base::Fd socket;
};
AbstractPeer connect_abstract(const std::string& name);
/// As `connect_abstract(name)`, but waits while the listener is busy. Throws `timeout` or
/// `internal`.
base::Fd connect_abstract(const std::string& name, const std::string& who,
                          const base::Patience& patience);

/// Passes a descriptor: the receiver gets its own copy. An empty descriptor tells the receiver that
/// there is none; `receive_descriptor` then throws `internal`. Throws `timeout` or `internal`;
/// `who` names the other end in the message.
void send_descriptor(const base::Fd& socket, const base::Fd& file, const std::string& who,
                     const base::Patience& patience);
base::Fd receive_descriptor(const base::Fd& socket, const std::string& who,
                            const base::Patience& patience);

/// Listen on a TCP port, a free one if it is 0: of the numeric `address`, or of all addresses of
/// the family (IPv4 or IPv6) of `like`.
base::Fd listen_tcp(const std::string& address, std::uint16_t port = 0);
base::Fd listen_tcp_everywhere(const std::string& like);
/// Takes over a socket that listens at a TCP port already, as `listen_tcp` makes it. Throws
/// `invalid_argument` if the descriptor is no such socket.
base::Fd adopt_listener(int number);
std::uint16_t port_of(const base::Fd& listener);
/// This host's numeric address on the connection.
std::string local_address(const base::Fd& socket);
/// The other end's address with its port: "10.0.0.2:41000". Empty if it has none, as with a Unix
/// socket.
std::string peer_address(const base::Fd& socket);
/// The numeric addresses of a host's name, or of a numeric address itself. Throws
/// `invalid_argument` when there is none.
std::vector<std::string> resolve(const std::string& host);
bool is_loopback(const std::string& address);

/// Starts to connect; the socket becomes writable when that has succeeded or failed. `source`: the
/// local address to connect from; empty: the system's choice. Throws `peer_lost` where the system
/// refuses at once.
base::Fd start_connecting(const std::string& address, std::uint16_t port,
                          const std::string& source);
/// Throws `peer_lost` when connecting has failed.
void check_connected(const base::Fd& socket);

/// Empty: there is no connection to accept at the moment.
base::Fd accept_one(const base::Fd& listener);

/// For a link of much data, whose peer may have no time to read it. Sends small frames without
/// delay. After a minute of silence the system asks whether the peer's system is there. So routers
/// that forget idle connections keep this one, and a path that is cut is noticed within two
/// minutes.
void tune_data_link(const base::Fd& socket);
/// For a link of small messages. Sends them without delay, and takes a peer for dead that
/// acknowledges nothing, or takes in nothing, for so long.
void tune_link(const base::Fd& socket,
               std::chrono::milliseconds unacknowledged = std::chrono::seconds(3));

/// False: the deadline passed first.
bool wait_readable(const base::Fd& fd, const base::Patience& patience);
bool wait_writable(const base::Fd& fd, const base::Patience& patience);

}  // namespace tutti::net
