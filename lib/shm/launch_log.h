#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tutti::shm {

/// The order in which the ranks of a node launch work of their NCCL communicator, which must be the
/// same on all of them. It is a ring of words in the memory that they share.
///
/// The node's first rank decides the order: it appends a launch, and makes it, once all ranks are
/// ready for it. The others make each launch as soon as they see it in the log. So a launch only
/// waits until the other ranks look at the log. A rank is ready for
/// - a scatter when its inputs are complete, and all ranks of the node are done with the chunk that
///   had the same slot before;
/// - a gather when its exchange of the chunk between the nodes has ended.
///
/// It is not enough that the first rank is ready: the input of another rank may wait, in a stream
/// of the program, for the result of a launch that would then come later in the log. The
/// exploration in test/unit/shm tries these rules, and some wrong ones.
///
/// Each rank has one object, which one thread at a time uses. Nothing blocks, and nothing rings a
/// doorbell: a thread that waits for `next` polls it, or the owner of the log wakes it.
class LaunchLog {
 public:
  enum class Kind : std::uint8_t { scatter, gather };
  struct Launch {
    std::uint64_t chunk = 0;  ///< its number among all chunks that went through the staging memory
    Kind kind = Kind::scatter;

    friend bool operator==(const Launch&, const Launch&) = default;
  };
  using Word = std::atomic<std::uint64_t>;

  /// Returns the number of words that a ring needs for this many slots. At most one launch for each
  /// slot can be appended by the first rank and not yet made by another one. The ring has room for
  /// twice as many.
  static constexpr std::size_t words(std::size_t slots) { return 2 * slots; }

  /// The node's ranks share `ring`, which was all zeros when the first of them came, and which
  /// outlives the log. `first` says that this is the node's first rank.
  LaunchLog(std::span<Word> ring, bool first);

  bool is_first() const { return first_; }
  /// The number of launches that this rank has made.
  std::uint64_t made() const { return made_; }

  /// For the first rank: notes that it makes this launch now. Throws `internal` if the ring holds
  /// an entry that it did not write.
  void append(Launch launch);
  /// For the other ranks: the launch that they have to make next, or none yet. Throws `internal` if
  /// the ring holds an entry of another log, or one that has overrun this rank's.
  std::optional<Launch> next() const;
  /// For the other ranks: notes that they have made the launch that `next` returned.
  void advance();

 private:
  Word& word() const { return ring_[made_ % ring_.size()]; }
  /// Whether the word does not hold the next launch yet: it holds an older one, or nothing.
  bool is_older(std::uint64_t word) const;
  [[noreturn]] void refuse(std::uint64_t word) const;

  std::span<Word> ring_;
  bool first_;
  std::uint64_t made_ = 0;
};

static_assert(LaunchLog::Word::is_always_lock_free, "shared between processes");

}  // namespace tutti::shm
