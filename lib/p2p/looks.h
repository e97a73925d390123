#pragma once
#include <chrono>
#include <utility>

namespace tutti::p2p {

/// Since the start of the session.
using SessionTime = std::chrono::nanoseconds;

/// Keeps the times at which a rank has looked for frames, and so knows how old a frame can be that
/// it finds.
class Looks {
 public:
  /// `settling`: how long it may take until looks have brought in all that was there before.
  explicit Looks(SessionTime settling) : settling_(settling) {}

  void add(SessionTime now) {
    if (now >= newer_ + settling_) older_ = std::exchange(newer_, now);
  }
  /// No frame that is found now was posted much before this.
  SessionTime before() const { return older_; }

 private:
  SessionTime settling_;
  SessionTime older_{};
  SessionTime newer_{};  ///< `settling` after that at least
};

}  // namespace tutti::p2p
