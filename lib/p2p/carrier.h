#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "p2p/frame.h"

namespace tutti::p2p {

/// A frame that has come from a rank, and the elements of an eager send.
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
/// another, frames arrive in order, and so do transfers. But a transfer may arrive before or after
/// the frames around it. One thread at a time uses it. Nothing blocks.
class Carrier {
 public:
  virtual ~Carrier() = default;

  /// Prepares for frames from this rank or to it. With `send`, elements may go there, too. Throws
  /// `internal` if there is not enough memory. A second call does nothing.
  enum class Use : bool { receive, send };
  virtual void open(int rank, Use use) = 0;
  /// Posts a frame. `elements` are those of an eager send. They are copied at once; EagerSends sees
  /// to it that there is room. All elements that were given to `send` before must have arrived.
  virtual void post(int to, const Frame& frame, std::span<const std::byte> elements) = 0;
  /// Sends elements. The memory must not change until the other rank says that it has received
  /// everything.
  virtual void send(int to, std::span<const std::byte> data) = 0;
  virtual void receive(int from, TransferId call, std::span<std::byte> data) = 0;
  /// Does a bounded piece of work, some tens of microseconds. Returns true if something moved.
  virtual bool step(News& news) = 0;
  /// The bytes that it holds for data on its way.
  virtual std::size_t buffer_bytes() const = 0;

 protected:
  Carrier() = default;
  Carrier(const Carrier&) = default;
  Carrier& operator=(const Carrier&) = default;
};

}  // namespace tutti::p2p
