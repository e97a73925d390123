#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "p2p/frame.h"

namespace tutti::p2p {

/// A frame that has come from a rank, with the elements of an eager send.
struct Letter {
  Frame frame;
  Payload elements{};
  int from = 0;
};

/// The frames and elements that have come through a carrier since the last look.
struct News {
  std::vector<Letter> letters;
  std::vector<TransferId> arrived;  ///< calls whose elements are all there
  std::vector<int> sent_to;         ///< ranks to which elements have moved on
  std::vector<int> received_from;   ///< ranks from which elements have come

  void clear() {
    letters.clear();
    arrived.clear();
    sent_to.clear();
    received_from.clear();
  }
};

/// Carries frames and the elements of tensors between this rank and some others. From one rank to
/// another frames arrive in order, and so do transfers, but a transfer may arrive before or after
/// the frames around it. One thread at a time uses it, and nothing blocks.
class Carrier {
 public:
  virtual ~Carrier() = default;

  /// Frames may come from this rank, or go there; with `send` elements go there, too. Throws
  /// `internal` where memory is short. Again it does nothing.
  enum class Use : bool { receive, send };
  virtual void open(int rank, Use use) = 0;
  /// `elements`: of an eager send. They are copied at once, for which EagerSends leaves room. All
  /// that was given to `send` before has arrived.
  virtual void post(int to, const Frame& frame, std::span<const std::byte> elements) = 0;
  /// The memory stays as it is until the other rank says that it has everything.
  virtual void send(int to, std::span<const std::byte> data) = 0;
  virtual void receive(int from, TransferId call, std::span<std::byte> data) = 0;
  /// Does a bounded piece of work, some tens of microseconds. True: something moved.
  virtual bool step(News& news) = 0;
  /// Bytes that it holds for what is on its way.
  virtual std::size_t buffer_bytes() const = 0;

 protected:
  Carrier() = default;
  Carrier(const Carrier&) = default;
  Carrier& operator=(const Carrier&) = default;
};

}  // namespace tutti::p2p
