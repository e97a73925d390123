#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/mapping.h"
#include "net/link_end.h"
#include "ps/protocol/messages.h"

namespace tutti::ps {

/// A server's end of the link to a worker: it receives requests and sends answers. It shares memory
/// with a worker of its machine, and elements travel in that memory.
class LinkToWorker {
 public:
  /// Throws `timeout` or `internal` if a worker of this machine has ended meanwhile.
  LinkToWorker(net::ProvenPeer peer, net::Poller& poller, std::uint64_t token);

  void send(Answer answer);
  void flush() { link_.flush(); }
  void set_reading(bool wanted) { link_.set_reading(wanted); }
  std::size_t unwritten_bytes() const { return link_.unwritten_bytes(); }
  /// Calls `take` with every request. Returns a text with the reason if the link has ended. Throws
  /// `internal` for bytes that are no request.
  std::optional<std::string> receive(const std::function<void(const ToServer&)>& take);
  /// See `net::Connection::has_refused`.
  bool has_refused() const { return link_.has_refused(); }

 private:
  void find_elements(ToServer& request, const net::Parcel& parcel) const;
  void check(const Room& room) const;

  std::shared_ptr<base::Mapping> shared_;  ///< null: with a worker of another machine
  net::LinkEnd link_;
};

}  // namespace tutti::ps
