#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/completion.h"
#include "base/spares.h"
#include "coordinator/types.h"
#include "tutti/tensor.h"

namespace tutti::runtime {

/// One key of a call.
struct TensorCall : coordinator::Call {
  std::uint32_t key_number = 0;  ///< the inbox's name for the key
  Values ins;                    ///< one a device; for a broadcast the root's value, elsewhere none
  Values outs;
};

class CallPool;

/// One call of the user's, and the Completion that its Pendings share. The tensors stay where they
/// are until all of its calls are done.
class CallList {
 public:
  CallList() = default;
  CallList(const CallList&) = delete;
  CallList& operator=(const CallList&) = delete;
  ~CallList() = default;

  std::span<TensorCall> calls;
  std::size_t begun = 0;                ///< calls that the executor has made its own
  base::Clock::time_point submitted{};  ///< for the timeline, if there is one
  /// Of as many parts as there are calls; there from `open` on.
  std::optional<base::Completion> completion;

  /// `verb`, a literal, names the call in messages.
  void open(std::string_view verb, std::weak_ptr<base::Driver> driver);
  /// "pushpull of 'fc1_weight'", "pushpull of 3 and 159 more keys".
  std::string describe() const;

 private:
  friend class CallPool;
  void resize(std::size_t count);
  std::size_t bytes() const {
    return memory_.empty() ? 0 : sizeof *this + memory_.capacity() * sizeof(TensorCall);
  }

  std::string_view verb_;
  std::vector<TensorCall> memory_;  ///< never shrinks, so that keys and lists keep theirs
  std::shared_ptr<CallPool> pool_;  ///< while it is in use
  /// For the counts of the shared_ptr that holds it.
  alignas(std::max_align_t) std::array<std::byte, 64> counts_;
};

/// Call lists, used again with all the memory they have grown: steps that repeat take nothing from
/// the heap. Kept apart by length, in powers of two. Thread-safe; lives as long as its
/// longest-lived list.
class CallPool : public std::enable_shared_from_this<CallPool> {
 public:
  /// What it holds at most for each key that was in flight at once in lists of one length class,
  /// 2^n keys up to 2^(n+1) - 1.
  static constexpr std::size_t bytes_per_key = 1280;

  /// Its calls hold anything but tensors; `completion` is empty.
  std::shared_ptr<CallList> take(std::size_t count);
  /// Held by all lists, in use or not; names of keys and lists of devices not counted.
  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Counts;
  base::Spares<CallList>& spares_for(std::size_t count);

  std::array<base::Spares<CallList>, 64> spares_;  ///< by the length's highest bit
  std::atomic<std::size_t> bytes_{0};
};

}  // namespace tutti::runtime
