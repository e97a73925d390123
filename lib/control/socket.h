#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/fd.h"

namespace tutti::control {

using Deadline = base::Clock::time_point;

/// Sockets in the abstract namespace: no file, gone with the process, not visible from another
/// network namespace. Close-on-exec, like all descriptors of this module.
base::Fd listen_abstract(const std::string& name);
/// Empty when nobody of that name listens on this node.
base::Fd connect_abstract(const std::string& name);

/// TCP, for links between nodes. `address` is an IPv4 or IPv6 number.
base::Fd listen_tcp(const std::string& address, int& port);
base::Fd connect_tcp(const std::string& address, int port, Deadline deadline);
/// Low delay, and an error within 3 s when the peer's machine no longer answers.
void tune_link(const base::Fd& socket);

/// Waits for a connection; throws `timeout` naming `waiting_for`.
base::Fd accept_from(const base::Fd& listener, Deadline deadline, const std::string& waiting_for);
/// Blocking until `deadline`; throw `timeout`, or `internal` when the peer closed.
void send_all(const base::Fd& socket, std::span<const std::byte> data, Deadline deadline,
              const std::string& waiting_for);
void receive_all(const base::Fd& socket, std::span<std::byte> data, Deadline deadline,
                 const std::string& waiting_for);
/// One descriptor over an abstract socket.
void send_descriptor(const base::Fd& socket, const base::Fd& descriptor);
base::Fd receive_descriptor(const base::Fd& socket, Deadline deadline,
                            const std::string& waiting_for);

/// The address to be reached at: of the named interface, or else of the first one that is up and no
/// loopback. Throws `invalid_argument` for an unknown interface, listing those there are.
std::string address_of_interface(const std::string& interface);

}  // namespace tutti::control
