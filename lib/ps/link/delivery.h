#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "base/clock.h"
#include "net/bytes.h"

namespace tutti::ps {

/// One end of an exchange of messages with one other process, as a value. Messages are numbered.
/// Each message is delivered once, and messages are delivered in the order in which they were sent.
/// That holds although packets may be lost, late or doubled, and a new connection may replace an
/// old one. If asked for, each message is kept until the other end has acknowledged it.
class Delivery {
 public:
  /// Sends a packet: its head, and the message in it. Both are valid during the call.
  using Transmit = std::function<void(net::ConstBytes head, net::ConstBytes message)>;
  using Take = std::function<void(net::ConstBytes message)>;
  using Time = base::Clock::time_point;

  /// The head has three numbers of 8 bytes each: the number of the message, the last number that is
  /// acknowledged, and the first number that is still kept.
  static constexpr std::size_t head_bytes = 24;
  /// The number of packets that may wait for an earlier one.
  static constexpr std::size_t most_waiting = 4096;
  static constexpr std::size_t most_waiting_bytes = std::size_t{512} << 20;

  struct Counts {
    std::uint64_t resent = 0;    ///< packets sent again
    std::uint64_t repeated = 0;  ///< packets that brought nothing new
    std::uint64_t early = 0;     ///< packets that came before their turn
  };

  /// Whether messages are kept, and after what time unacknowledged ones are sent again. Without a
  /// time, only `resend_all` sends them again.
  struct Policy {
    bool keeps = false;
    std::optional<base::Clock::duration> resend_after{};
  };

  explicit Delivery(Policy policy) : policy_(policy) {}

  /// Sending.
  void send(net::Bytes message, Time now, const Transmit& transmit);
  /// Sends again the messages that are due.
  void resend(Time now, const Transmit& transmit);
  /// Begins over another connection. Tells the other end how far each end has come, whether or not
  /// anything is owed, and sends again all messages that are kept.
  void resend_all(Time now, const Transmit& transmit);
  /// The time at which `resend` has something to do.
  std::optional<Time> due() const;
  /// Acknowledges the messages that have arrived, if the other end keeps messages and does not know
  /// it yet.
  void acknowledge(const Transmit& transmit);
  bool is_acknowledged() const { return kept_.empty(); }

  /// Receives a packet, and passes its undelivered messages to `take`. Throws `internal` for a
  /// packet that breaks the protocol, and `mismatch` if this end was restored from a state that is
  /// too old.
  void receive(net::ConstBytes packet, const Take& take);

  /// The number up to which all messages have arrived here, and the number up to which this end
  /// knows that they have arrived at the other end.
  std::uint64_t received() const { return received_; }
  std::uint64_t acknowledged() const { return first_kept_ - 1; }
  const Counts& counts() const { return counts_; }

  /// The state that outlives the process.
  struct Snapshot {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::deque<net::Bytes> kept{};  ///< the last ones sent
  };
  Snapshot save() const;
  void restore(Snapshot saved);
  /// Call this while a log is read again: this message was received, and the other end had
  /// acknowledged this many.
  void replay(std::uint64_t acknowledged);

 private:
  struct Kept {
    net::Bytes message;
    Time sent{};
  };
  struct Head {
    std::uint64_t number = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t first_kept = 0;  ///< 0: the sender keeps none
  };

  void transmit(std::uint64_t number, net::ConstBytes message, const Transmit& transmit);
  void take_acknowledgement(std::uint64_t acknowledged);
  void hold(std::uint64_t number, net::ConstBytes message);
  void deliver(net::ConstBytes message, const Take& take);

  Policy policy_;
  std::uint64_t sent_ = 0;  ///< the last number
  std::uint64_t first_kept_ = 1;
  std::deque<Kept> kept_;
  std::uint64_t received_ = 0;  ///< all up to this number
  std::map<std::uint64_t, net::Bytes> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool owes_acknowledgement_ = false;
  Counts counts_;
};

}  // namespace tutti::ps
