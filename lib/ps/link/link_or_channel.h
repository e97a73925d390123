#pragma once
#include <cstddef>
#include <optional>
#include <utility>

#include "ps/link/channel.h"

namespace tutti::ps {

/// An end of the connection between a worker and a server. It uses the fastest link that there is.
/// If both ends keep their messages, it uses a channel that outlives its connections.
template <typename Link>
class LinkOrChannel {
 public:
  LinkOrChannel(net::Poller& poller, std::uint64_t token, const Channel::Ends& ends,
                const Channel::Terms& terms)
      : poller_(poller),
        token_(token),
        terms_(terms),
        ends_(ends),
        channel_(poller, token, ends, terms) {}

  void disconnect() {
    channel_.disconnect();
    link_.reset();
  }
  bool is_open() const { return keeps() ? channel_.is_open() : link_.has_value(); }
  bool keeps() const { return channel_.keeps(); }
  void flush() {
    if (keeps()) return channel_.flush();
    if (link_) link_->flush();
  }
  /// The bytes that are left to write. Kept messages that have left do not count, because only
  /// reading tells whether they have arrived.
  std::size_t unwritten_bytes() const {
    if (keeps()) return channel_.unwritten_bytes();
    return link_ ? link_->unwritten_bytes() : 0;
  }
  /// See `Channel::due`.
  std::optional<base::Clock::time_point> due() const { return channel_.due(); }

 protected:
  net::Poller& poller_;
  const std::uint64_t token_;
  const Channel::Terms terms_;
  const Channel::Ends ends_;
  Channel channel_;
  std::optional<Link> link_;
};

}  // namespace tutti::ps
