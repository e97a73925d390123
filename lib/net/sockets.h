#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/patience.h"

namespace tutti::net {

// All sockets are non-blocking. Unless a comment says otherwise, failures throw `internal`.
// Functions that wait also throw the errors that their `patience` throws.

/// A Unix socket in the abstract name space. It needs no file, ends with its last descriptor, and
/// is visible in only one network namespace. It keeps message boundaries and can pass descriptors.
base::Fd listen_abstract(const std::string& name);

/// Does the same for a stream of bytes, for links to processes of this machine.
base::Fd listen_nearby(const std::string& name);
/// Connects to a process of this user. Returns an empty descriptor if none listens there.
base::Fd connect_nearby(const std::string& name);
/// Whether the other end is on this machine. For such a socket, also whether it belongs to this
/// user.
bool is_nearby(const base::Fd& socket);
bool is_same_user(const base::Fd& socket);

enum class Reached { connected, busy, nobody };
/// `busy` means that somebody listens, but the queue of connections to accept is full. Try again
/// later.
struct AbstractPeer {
  Reached reached = Reached::nobody;
  base::Fd socket;
};
AbstractPeer connect_abstract(const std::string& name);
/// Does the same as `connect_abstract(name)`, but waits while the listener is busy. Throws
/// `timeout` or `internal`.
base::Fd connect_abstract(const std::string& name, const std::string& who,
                          const base::Patience& patience);

/// Passes a descriptor: the receiver gets its own copy. An empty descriptor tells the receiver that
/// there is none; `receive_descriptor` then throws `internal`. Throws `timeout` or `internal`;
/// `who` names the other end in the message.
void send_descriptor(const base::Fd& socket, const base::Fd& file, const std::string& who,
                     const base::Patience& patience);
base::Fd receive_descriptor(const base::Fd& socket, const std::string& who,
                            const base::Patience& patience);

/// Listen on a TCP port, or on a free one if it is 0. One function listens at the numeric
/// `address`, the other at all addresses of the family (IPv4 or IPv6) of `like`.
base::Fd listen_tcp(const std::string& address, std::uint16_t port = 0);
base::Fd listen_tcp_everywhere(const std::string& like);
/// Takes over a socket that already listens at a TCP port, like one that `listen_tcp` makes. Throws
/// `invalid_argument` if the descriptor is no such socket.
base::Fd adopt_listener(int number);
std::uint16_t port_of(const base::Fd& listener);
/// This host's numeric address on the connection.
std::string local_address(const base::Fd& socket);
/// The address of the other end with its port: "10.0.0.2:41000". Empty if it has none, as with a
/// Unix socket.
std::string peer_address(const base::Fd& socket);
/// The numeric addresses of a host's name, or of a numeric address itself. Throws
/// `invalid_argument` if there is none.
std::vector<std::string> resolve(const std::string& host);
bool is_loopback(const std::string& address);

/// Starts to connect. The socket becomes writable when that has succeeded or failed. `source` is
/// the local address from which to connect; if it is empty, the system chooses. Throws `peer_lost`
/// if the system refuses at once.
base::Fd start_connecting(const std::string& address, std::uint16_t port,
                          const std::string& source);
/// Throws `peer_lost` if connecting has failed.
void check_connected(const base::Fd& socket);

/// Returns an empty descriptor if there is no connection to accept at the moment.
base::Fd accept_one(const base::Fd& listener);

/// For a link that carries much data, and whose peer may have no time to read it. Sends small
/// frames without delay. After a minute of silence the system checks whether the peer's system is
/// there. So routers that forget idle connections keep this one, and a path that is cut is noticed
/// within two minutes.
void tune_data_link(const base::Fd& socket);
/// For a link that carries small messages. Sends them without delay. If a peer acknowledges
/// nothing, or takes in nothing, for this long, the link takes it for dead.
void tune_link(const base::Fd& socket,
               std::chrono::milliseconds unacknowledged = std::chrono::seconds(3));

/// Returns false if the deadline passed first.
bool wait_readable(const base::Fd& fd, const base::Patience& patience);
bool wait_writable(const base::Fd& fd, const base::Patience& patience);

}  // namespace tutti::net
