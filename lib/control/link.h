#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "control/frame.h"
#include "control/poller.h"
#include "control/socket.h"

namespace tutti::control {

/// An established, authenticated connection between a leader and rank 0, driven by one epoll
/// thread.
class Link {
 public:
  Link(base::Fd socket, const SessionKey& outgoing, const SessionKey& incoming);

  /// The two sides of the handshake: blocking until `deadline`; both prove that they know the
  /// job's secret, and derive fresh keys. Throw when the other side does not.
  static Link connect(base::Fd socket, int rank, const std::string& secret, Deadline deadline);
  static Link accept(base::Fd socket, const std::string& secret, Deadline deadline, int& rank);

  void watch(Poller& poller, std::uint64_t id);
  void add(std::int32_t rank, std::span<const std::byte> message) { writer_.add(rank, message); }
  /// Sends what was added as one frame, or a heartbeat when nothing was; the rest goes when the
  /// poller says that there is room. False: the connection is broken.
  bool seal_and_send(bool farewell = false);
  /// Reads what there is. False: the connection has ended.
  bool receive(std::vector<Letter>& letters);
  /// The peer said that it would go.
  bool farewell() const { return reader_.said_farewell(); }
  const base::Fd& socket() const { return socket_; }

 private:
  base::Fd socket_;
  FrameWriter writer_;
  FrameReader reader_;
  Poller* poller_ = nullptr;
  std::uint64_t id_ = 0;
};

}  // namespace tutti::control
