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

/// A worker's end of the link to a server: it sends requests and receives answers. It shares memory
/// with a server of its machine, and elements travel in that memory.
class LinkToServer {
 public:
  /// If memory is shared, blocks until it is there. Throws `internal` or `timeout`.
  LinkToServer(net::ProvenPeer peer, net::Poller& poller, std::uint64_t token,
               const base::Patience& patience);

  /// Sends a message. `stays` says that the message's elements stay where they are until it is
  /// answered; otherwise they are copied. `answer_bytes` are those of the elements that the answer
  /// brings. Returns how many bytes go to the server, in either way.
  std::size_t send(ToServer message, std::size_t answer_bytes, bool stays);
  bool shares_memory() const { return rooms_.has_value(); }
  void flush() { link_.flush(); }
  std::size_t unwritten_bytes() const { return link_.unwritten_bytes(); }
  /// Calls `take` with every answer. Returns a text with the reason if the link has ended. Throws
  /// `internal` for bytes that are no answer.
  std::optional<std::string> receive(const std::function<void(const Answer&)>& take);

  /// A forked child calls this. It closes the child's copy of the socket.
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
