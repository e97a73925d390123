#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/patience.h"
#include "net/link_end.h"
#include "ps/link/rooms.h"

namespace tutti::ps {

/// A worker's end of the link to a server: requests go out, answers come in. With a server of its
/// machine it shares memory, in which elements travel.
class LinkToServer {
 public:
  /// Blocks until the memory is there, where it is shared. Throws `internal` or `timeout`.
  LinkToServer(net::ProvenPeer peer, net::Poller& poller, std::uint64_t token,
               const base::Patience& patience);

  /// `stays`: the message's elements stay where they are until it is answered; else they are
  /// copied. `answer_bytes`: of elements that the answer brings. Returns how many bytes go to the
  /// server, by whichever way.
  std::size_t send(ToServer message, std::size_t answer_bytes, bool stays);
  bool shares_memory() const { return rooms_.has_value(); }
  void flush() { link_.flush(); }
  std::size_t unwritten_bytes() const { return link_.unwritten_bytes(); }
  /// Calls `take` with every answer. Returns a text with the reason if the link has ended. Throws
  /// `internal` for bytes that are no answer.
  std::optional<std::string> receive(const std::function<void(const Answer&)>& take);

  /// A forked child calls it. Closes the child's copy of the socket.
  void abandon() { link_.abandon(); }

 private:
  void move_in(ToServer& message, std::size_t answer_bytes);
  void find_elements(Answer& answer) const;
  void settle(std::uint64_t sequence);

  std::optional<Rooms> rooms_;          ///< none: the server is on another machine
  std::map<std::uint64_t, Room> lent_;  ///< by the request's sequence
  net::LinkEnd link_;
};

}  // namespace tutti::ps
