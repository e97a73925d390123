#pragma once
#include <functional>
#include <string>

#include "ps/link/link_or_channel.h"
#include "ps/link/link_to_worker.h"

namespace tutti::ps {

/// A server's connection to a worker.
class ConnectionToWorker : public LinkOrChannel<LinkToWorker> {
 public:
  /// A request, and what came of it in a message.
  using Take = std::function<void(const ToServer& request, net::ConstBytes message)>;

  using LinkOrChannel::LinkOrChannel;

  /// As of `LinkToWorker`.
  void connect(net::ProvenPeer peer);
  const std::string& peer_address() const { return address_; }

  void send(const Answer& answer);
  /// As of net::LinkEnd.
  void set_reading(bool wanted);
  /// Whether a worker whose connection ends is lost is for the scheduler to say. Throws `internal`
  /// for what is no request, or not of this worker.
  void receive(const Take& take);

  Delivery& delivery() { return channel_.delivery(); }
  const Delivery& delivery() const { return channel_.delivery(); }

 private:
  std::string address_;
};

}  // namespace tutti::ps
