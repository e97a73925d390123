#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tutti::collective {

/// Chooses how this rank writes its staging buffer, which the other ranks of its node read next: by
/// ordinary stores, or by non-temporal ones, which go around the caches. Only one thread may use
/// it. Nothing blocks.
///
/// If the processors share a cache, staged data passes through it faster than through memory. If
/// they share none (chiplets, sockets), an ordinary store must first fetch its line from the
/// processor that read it last. Two processors of an EPYC that shared no cache wrote 1.8 to 3 GB/s
/// by ordinary stores and 15 to 17 GB/s by non-temporal ones. With a shared cache they wrote 7 to
/// 14 and 10 to 14 GB/s. The machine's description does not tell which case holds: the host moves
/// virtual processors, on that machine every two seconds. So copies are timed, and the other way is
/// tried now and then. Each rank chooses for itself. The bits are the same either way.
class StagingStores {
 public:
  using Duration = std::chrono::nanoseconds;

  struct Pacing {
    /// Smaller copies are not timed, and use ordinary stores.
    std::size_t least_bytes = std::size_t{32} << 10;
    /// The number of copies between two trials of the other way. Copying in is a third of a large
    /// allreduce, and trials add at most 5 % to it. The number is prime, so that trials fall on all
    /// chunks of a batch in turn.
    std::uint64_t between_trials = 509;
  };

  explicit StagingStores(const Pacing& pacing) : pacing_(pacing) {}

  /// Notes that the next copies belong to a batch whose parts have this many bytes on average.
  /// Small parts are copied one by one, and their time tells little about memory.
  void next_batch(std::size_t bytes_a_part) { bytes_a_piece_ = bytes_a_part; }

  /// Whether the last copy went around the caches. Writes that are not timed do the same.
  bool is_around() const { return last_around_; }

  /// Calls `copy(around)`, which writes this many bytes, and times it.
  template <class Copy>
  void write(std::size_t bytes, const Copy& copy) {
    if (std::min(bytes, bytes_a_piece_) < pacing_.least_bytes) {
      last_around_ = false;
      return copy(false);
    }
    const bool way = choose_next();
    const auto begin = std::chrono::steady_clock::now();
    copy(way);
    note_time(way, bytes, std::chrono::steady_clock::now() - begin);
  }

  /// Whether the next timed copy goes around the caches.
  bool choose_next();
  /// Notes how long a copy took.
  void note_time(bool around, std::size_t bytes, Duration time);

 private:
  /// The number of copies in a trial. The fastest counts, because an interrupted one takes longer.
  static constexpr std::size_t copies_a_trial = 3;

  class Pace {
   public:
    void note_time(double ns_per_byte) { last_[next_++ % last_.size()] = ns_per_byte; }
    bool known() const { return next_ >= last_.size(); }
    double least() const { return *std::min_element(last_.begin(), last_.end()); }

   private:
    std::array<double, copies_a_trial> last_{};
    std::size_t next_ = 0;
  };

  const Pacing pacing_;
  std::size_t bytes_a_piece_ = 0;
  bool around_ = false;  ///< whether it is faster to go around the caches, as measured last
  bool last_around_ = false;
  std::uint64_t copies_ = 0;
  Pace into_caches_;
  Pace around_caches_;
};

}  // namespace tutti::collective
