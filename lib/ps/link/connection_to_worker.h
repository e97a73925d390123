#pragma once
#include <functional>
#include <string>

#include "ps/link/link_or_channel.h"
#include "ps/link/link_to_worker.h"

namespace tutti::ps {

/// A server's connection to a worker.
class ConnectionToWorker : public LinkOrChannel<LinkToWorker> {
 public:
  /// Takes a request, and the message that brought it.
  using Take = std::function<void(const ToServer& request, net::ConstBytes message)>;

  using LinkOrChannel::LinkOrChannel;

  /// Throws the same errors as the constructor of `LinkToWorker`.
  void connect(net::ProvenPeer peer);
  const std::string& peer_address() const { return address_; }

  void send(const Answer& answer);
  /// See `net::LinkEnd::set_reading`.
  void set_reading(bool wanted);
  /// Passes the requests that have arrived to `take`. If a worker's connection ends, the scheduler
  /// decides whether the worker is lost. Throws `internal` for bytes that are no request, or do not
  /// come from this worker.
  void receive(const Take& take);

  Delivery& delivery() { return channel_.delivery(); }
  const Delivery& delivery() const { return channel_.delivery(); }

 private:
  std::string address_;
};

}  // namespace tutti::ps
