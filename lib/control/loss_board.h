#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "control/loss_slot.h"
#include "control/segment.h"
#include "net/epoll_bell.h"

namespace tutti::control {

/// Tells this process whether a rank is lost, and tells the node of a loss. It writes the loss to
/// the control segment, where the other ranks read it. It also keeps the loss here, because a rank
/// may die while it writes to the segment. Thread-safe.
class LossBoard {
 public:
  /// Both references outlive the board. `collector` wakes the thread that collects the node's
  /// messages; that thread tells the other nodes of the loss. `on_loss` is called with a loss that
  /// is first reported here.
  LossBoard(const Segment& segment, net::EpollBell& collector,
            std::function<void(const FailedRank&)> on_loss)
      : segment_(segment), collector_(collector), on_loss_(std::move(on_loss)) {}

  /// Reports a loss, and rings every doorbell of the node. Only the first loss that this process
  /// sees counts.
  void report(int rank, std::string_view reason) noexcept;
  bool has_loss() const noexcept { return own_.has_loss() || segment_.loss().has_loss(); }
  std::optional<FailedRank> get() const;

 private:
  void tell() const noexcept;

  const Segment& segment_;
  net::EpollBell& collector_;
  const std::function<void(const FailedRank&)> on_loss_;
  mutable LossSlot own_;
};

}  // namespace tutti::control
