#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::control {

/// The rank that made the session unusable, and the reason. The reason continues a sentence that
/// begins with the rank: "its process ended without leaving the store".
struct FailedRank {
  int rank = -1;
  std::string reason;
};

/// Keeps the first loss that is reported, until the session ends. It may lie in shared memory,
/// where all zeros mean that no rank is lost. Thread-safe. It never allocates, so that a thread
/// without memory can still report a loss.
class LossSlot {
 public:
  /// Returns true if this is the first loss reported. Then the slot keeps it.
  bool report(int rank, std::string_view reason) noexcept;
  bool has_loss() const noexcept {
    return state_.load(std::memory_order_seq_cst) == State::written;
  }
  std::optional<FailedRank> get() const;

 private:
  enum class State : std::uint32_t { free, being_written, written };
  std::atomic<State> state_{State::free};
  int rank_ = 0;
  std::uint32_t length_ = 0;
  std::array<char, 500> reason_{};
};

}  // namespace tutti::control
