#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tutti::collective {

/// How this rank writes what the other ranks of its node read next: into the caches, or around
/// them. One thread; nothing blocks.
///
/// Where processors share a cache, what is staged passes through it in less time than through
/// memory. Where they do not (chiplets, sockets), a store into the caches fetches its line from
/// whoever read it last: on two processors of an EPYC without a common cache that is 1.8 to 3 GB/s,
/// and 15 to 17 around the caches; with one, 7 to 14 and 10 to 14. No description of the machine
/// tells, for virtual processors move: those of that machine every two seconds. So copies are
/// timed, now and then the other way. Each rank chooses for itself; no bits depend on it.
class StagingStores {
 public:
  using Duration = std::chrono::nanoseconds;

  struct Pacing {
    /// Less says too little of memory to be timed, and goes into the caches.
    std::size_t least_bytes = std::size_t{32} << 10;
    /// Copies from one trial of the other way to the next. Of a large allreduce copying in is a
    /// third, of which trials take 5 in 100 at most. A prime, so that trials meet all of a batch's
    /// chunks, however many there are.
    std::uint64_t between_trials = 509;
  };

  explicit StagingStores(const Pacing& pacing) : pacing_(pacing) {}

  /// What follows belongs to a batch whose parts have so many bytes on average: many small ones
  /// are copied one by one, and their time says little of memory.
  void next_batch(std::size_t bytes_a_part) { bytes_a_piece_ = bytes_a_part; }

  /// The way of the last copy, for what is written without being timed.
  bool is_around() const { return last_around_; }

  /// Calls `copy(around)`, which writes so many bytes that way.
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

  /// The way of the next copy that is timed.
  bool choose_next();
  /// How long it took.
  void note_time(bool around, std::size_t bytes, Duration time);

 private:
  /// As many as a trial makes. The least of them counts, for who is interrupted takes longer.
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
  bool around_ = false;  ///< takes less time as far as is known
  bool last_around_ = false;
  std::uint64_t copies_ = 0;
  Pace into_caches_;
  Pace around_caches_;
};

}  // namespace tutti::collective
