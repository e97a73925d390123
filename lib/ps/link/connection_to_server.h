#pragma once
#include <functional>
#include <optional>
#include <string>

#include "ps/link/link_or_channel.h"
#include "ps/link/link_to_server.h"

namespace tutti::ps {

/// A worker's connection to a server.
class ConnectionToServer : public LinkOrChannel<LinkToServer> {
 public:
  using LinkOrChannel::LinkOrChannel;

  /// Blocks and throws like the constructor of `LinkToServer`.
  void connect(net::ProvenPeer peer, const base::Patience& patience);
  /// Whether elements travel through memory that both ends share.
  bool shares_memory() const { return link_ && link_->shares_memory(); }
  /// Whether all kept messages have arrived at the server.
  bool is_acknowledged() const { return channel_.delivery().is_acknowledged(); }

  std::size_t send(const ToServer& message, std::size_t answer_bytes, bool stays);
  std::optional<std::string> receive(const std::function<void(const Answer&)>& take);
  void abandon();
};

}  // namespace tutti::ps
