#pragma once
#include <chrono>
#include <utility>

namespace tutti::p2p {

/// The time since the start of the session.
using SessionTime = std::chrono::nanoseconds;

/// Keeps the times at which a rank has looked for frames. So it knows how old a frame can be that
/// the rank finds.
class Looks {
 public:
  /// `settling` is how long it may take until looks have brought in everything that was there
  /// before.
  explicit Looks(SessionTime settling) : settling_(settling) {}

  void add(SessionTime now) {
    if (now >= newer_ + settling_) older_ = std::exchange(newer_, now);
  }
  /// A frame that is found now was not posted much before this time.
  SessionTime before() const { return older_; }

 private:
  SessionTime settling_;
  SessionTime older_{};
  SessionTime newer_{};  ///< `settling` after that at least
};

}  // namespace tutti::p2p
