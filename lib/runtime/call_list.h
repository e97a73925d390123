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
#include "cuda/event.h"
#include "tutti/tensor.h"

namespace tutti::runtime {

/// A call with its tensors.
struct TensorCall : coordinator::Call {
  std::uint32_t key_number = 0;  ///< the inbox's number of the key
  Values ins;                    ///< one a device; broadcast: only at the root
  Values outs;
  /// all_to_all only: elements, by sender and then by receiver.
  std::vector<std::size_t> counts;
  /// Tensors on a GPU: their contents are there, and they may be written, from this event on.
  std::shared_ptr<const cuda::Event> ready;

  /// A tensor came with a deleter of the program's that may block, or call the store.
  bool has_foreign_deleter() const;
  void drop_tensors();
  /// Sets the matrix of an all_to_all among so many ranks, and its hash and length in the
  /// signature.
  void set_counts(std::span<const std::size_t> matrix, int ranks);
};

class CallPool;

/// The tensor calls of one method call of the user's, and the Completion that its Pendings share.
/// The `TensorCall`s do not move in memory until all of them are done.
class CallList {
 public:
  CallList() = default;
  CallList(const CallList&) = delete;
  CallList& operator=(const CallList&) = delete;
  ~CallList() = default;

  std::span<TensorCall> calls;
  std::size_t begun = 0;                ///< calls that the executor has taken over
  base::Clock::time_point submitted{};  ///< for the timeline, if there is one
  /// One part for each call. Set by `open`.
  std::optional<base::Completion> completion;

  /// `verb`, a literal, names the call in messages. `order`: for outputs on a GPU.
  void open(std::string_view verb, std::weak_ptr<base::Driver> driver,
            std::shared_ptr<const base::StreamOrder> order = nullptr);
  std::string_view verb() const { return verb_; }
  /// "pushpull of 'fc1_weight'", "pushpull of 3 and 159 more keys".
  std::string describe() const;

 private:
  friend class CallPool;
  void resize(std::size_t count);
  std::size_t bytes() const {
    return memory_.empty() ? 0 : sizeof *this + memory_.capacity() * sizeof(TensorCall);
  }

  std::string_view verb_;
  std::vector<TensorCall> memory_;  ///< never shrinks, so that keys and lists keep their memory
  std::shared_ptr<CallPool> pool_;  ///< while it is in use
  /// Memory for the control block of the shared_ptr that holds this list.
  alignas(std::max_align_t) std::array<std::byte, 64> counts_;
};

/// A pool of call lists, which keep the memory they have allocated, so that steps that repeat
/// allocate nothing. Lists are pooled by length, in powers of two. Thread-safe. Every list keeps
/// the pool alive.
class CallPool : public std::enable_shared_from_this<CallPool> {
 public:
  /// The most bytes held for each key that was in flight at once, in lists of one length class: 2^n
  /// to 2^(n+1) - 1 keys.
  static constexpr std::size_t bytes_per_key = 1472;

  /// The calls have arbitrary contents, but no tensors; `completion` is empty.
  std::shared_ptr<CallList> take(std::size_t count);
  /// Gives back the memory of the lists that are not in use.
  void drop_spares();
  /// Bytes of all lists, in use or not. Not counted: long strings in keys, and lists of several
  /// devices' tensors.
  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Counts;
  base::Spares<CallList>& spares_for(std::size_t count);

  std::array<base::Spares<CallList>, 64> spares_;  ///< by the length's highest bit
  std::atomic<std::size_t> bytes_{0};
};

}  // namespace tutti::runtime
