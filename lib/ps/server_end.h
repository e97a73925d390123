#pragma once
#include <functional>
#include <optional>
#include <string>

#include "ps/channel.h"
#include "ps/server_link.h"

namespace tutti::ps {

/// A worker's end of what it and a server say to each other: over the quickest link that there is,
/// or, where both keep what they say, over a channel that outlives its connections.
class ServerEnd {
 public:
  ServerEnd(net::Poller& poller, std::uint64_t token, const Channel::Ends& ends,
            const Channel::Terms& terms)
      : poller_(poller),
        token_(token),
        terms_(terms),
        ends_(ends),
        channel_(poller, token, ends, terms) {}

  /// As of `ServerLink`.
  void connect(net::ProvenPeer peer, const base::Patience& patience);
  void disconnect();
  bool is_open() const { return keeps() ? channel_.is_open() : link_.has_value(); }
  bool keeps() const { return channel_.keeps(); }
  /// What is kept has arrived there.
  bool is_acknowledged() const { return channel_.delivery().is_acknowledged(); }

  std::size_t send(const ToServer& message, std::size_t answer_bytes, bool stays);
  void keep_all() {
    if (link_) link_->keep_all();
  }
  void flush();
  std::size_t unwritten_bytes() const;
  std::optional<base::Clock::time_point> due() const { return channel_.due(); }
  std::optional<std::string> receive(const std::function<void(const Answer&)>& take);
  void abandon();

 private:
  net::Poller& poller_;
  const std::uint64_t token_;
  const Channel::Terms terms_;
  const Channel::Ends ends_;
  Channel channel_;
  std::optional<ServerLink> link_;
};

}  // namespace tutti::ps
