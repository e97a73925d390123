#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "net/link_end.h"
#include "ps/link/delivery.h"
#include "ps/link/injector.h"
#include "ps/link/job.h"

namespace tutti::ps {

/// One end of the messages between two processes of a job, over the connection that they have at
/// the time. Each message arrives once, and in order. Only the thread that owns the poller uses it.
class Channel {
 public:
  struct Ends {
    std::string me;    ///< "worker 0"
    std::string peer;  ///< "server 1"
  };
  struct Terms {
    int verbose = 0;  ///< as in Job
    Injector::Rates faults{};
    Delivery::Policy delivery{};

    /// `keeps` says that sent messages are kept, so that they outlive the connection.
    static Terms of(const Job& job, bool keeps = false);
  };
  /// `token` marks its events in `poller`, which outlives the channel.
  Channel(net::Poller& poller, std::uint64_t token, Ends ends, Terms terms);
  /// Logs how many packets were lost on purpose, and what followed from that.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Takes a connection in place of one that has ended. Sends the messages again that may not have
  /// arrived.
  void connect(net::ProvenPeer peer);
  void disconnect() { link_.reset(); }
  bool is_open() const { return link_ && link_->is_open(); }
  /// Whether sent messages are kept, so that they outlive the connection.
  bool keeps() const { return terms_.delivery.keeps; }
  const std::string& peer() const { return ends_.peer; }
  /// The address of the last connection, such as "10.0.0.2:41000".
  const std::string& peer_address() const { return address_; }

  void send(net::Bytes message);
  void flush();
  /// See net::LinkEnd.
  void set_reading(bool wanted) {
    if (link_) link_->set_reading(wanted);
  }
  /// The bytes that are left to write to the connection.
  std::size_t unwritten_bytes() const { return link_ ? link_->unwritten_bytes() : 0; }
  /// The time at which to call `flush` even if nothing was sent.
  std::optional<base::Clock::time_point> due() const;
  /// Calls `take` with every message that has arrived; the messages are not verified yet. Returns
  /// the reason if the connection has ended. Throws `internal` for bytes that do not follow the
  /// protocol.
  std::optional<std::string> receive(const Delivery::Take& take);
  /// See `net::Connection::has_refused`.
  bool has_refused() const { return link_ && link_->has_refused(); }
  /// See net::LinkEnd.
  std::optional<std::string> beat(const net::Heartbeat& heartbeat) {
    return link_ ? link_->beat(heartbeat) : std::nullopt;
  }
  void show_life() {
    if (link_) link_->show_life();
  }

  /// Blocks until the other end has all sent messages, the deadline has passed, or the connection
  /// has ended.
  void drain(base::Clock::time_point deadline);
  void close_gracefully(base::Clock::time_point deadline) {
    if (link_) link_->close_gracefully(deadline);
  }
  void abandon() {
    if (link_) link_->abandon();
  }

  Delivery& delivery() { return delivery_; }
  const Delivery& delivery() const { return delivery_; }

 private:
  void transmit(net::ConstBytes head, net::ConstBytes message);
  Delivery::Transmit transmitter() {
    return [this](net::ConstBytes head, net::ConstBytes message) { transmit(head, message); };
  }
  net::Poller& poller_;
  const std::uint64_t token_;
  const Ends ends_;
  const Terms terms_;
  Delivery delivery_;
  Injector injector_;
  struct Late {
    base::Clock::time_point due{};
    net::Bytes packet;
  };
  std::deque<Late> late_;  ///< delayed on purpose, in the order in which they are due
  std::optional<net::LinkEnd> link_;
  std::string address_;
};

/// The words "at 10.0.0.2:41000", or "on this machine" for a connection without an address.
std::string place_of(const std::string& address);

/// If PS_VERBOSE asks for that, log "worker 0 is connected to server 1 at 10.0.0.2:41000", and
/// "worker 0 to server 1: a message of 12 bytes".
void log_connection(const Channel::Ends& ends, const Channel::Terms& terms,
                    const std::string& address);
void log_message(const Channel::Ends& ends, const Channel::Terms& terms, const char* how,
                 std::size_t bytes);

}  // namespace tutti::ps
