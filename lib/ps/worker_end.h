#pragma once
#include <functional>
#include <optional>
#include <string>

#include "ps/channel.h"
#include "ps/worker_link.h"

namespace tutti::ps {

/// A server's end of what it and a worker say to each other: see `ServerEnd`.
class WorkerEnd {
 public:
  /// A request, and what came of it in a message.
  using Take = std::function<void(const ToServer& request, net::ConstBytes message)>;

  WorkerEnd(net::Poller& poller, std::uint64_t token, const Channel::Ends& ends,
            const Channel::Terms& terms)
      : poller_(poller),
        token_(token),
        terms_(terms),
        ends_(ends),
        channel_(poller, token, ends, terms) {}

  /// As of `WorkerLink`.
  void connect(net::ProvenPeer peer);
  void disconnect();
  bool is_open() const { return keeps() ? channel_.is_open() : link_.has_value(); }
  bool keeps() const { return channel_.keeps(); }
  const std::string& peer_address() const { return address_; }

  void send(const Answer& answer);
  void flush();
  /// As of net::LinkEnd.
  void set_reading(bool wanted);
  std::optional<base::Clock::time_point> due() const { return channel_.due(); }
  /// Whether a worker whose connection ends is lost is for the scheduler to say. Throws `internal`
  /// for what is no request.
  void receive(const Take& take);

  Delivery& delivery() { return channel_.delivery(); }
  const Delivery& delivery() const { return channel_.delivery(); }

 private:
  net::Poller& poller_;
  const std::uint64_t token_;
  const Channel::Terms terms_;
  const Channel::Ends ends_;
  Channel channel_;
  std::optional<WorkerLink> link_;
  std::string address_;
};

}  // namespace tutti::ps
