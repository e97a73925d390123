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
  /// Only for all_to_all: the number of elements for each pair of ranks, ordered by sender and then
  /// by receiver.
  std::vector<std::size_t> counts;
  /// Only for tensors on a GPU: once this event has happened, the tensors' contents are there, and
  /// the tensors may be written.
  std::shared_ptr<const cuda::Event> ready;

  /// Whether a tensor has a deleter of the program's, which may block or call the store.
  bool has_foreign_deleter() const;
  void drop_tensors();
  /// Sets the matrix of an all_to_all of this many ranks. Also sets the hash and the length in the
  /// signature.
  void set_counts(std::span<const std::size_t> matrix, int ranks);
};

class CallPool;

/// The tensor calls of one method call of the user's, and the Completion that the call's Pendings
/// share. The `TensorCall`s keep their addresses until all of them are done.
class CallList {
 public:
  CallList() = default;
  CallList(const CallList&) = delete;
  CallList& operator=(const CallList&) = delete;
  ~CallList() = default;

  std::span<TensorCall> calls;
  std::size_t begun = 0;                ///< calls that the executor has taken over
  base::Clock::time_point submitted{};  ///< for the timeline, if there is one
  /// Has one part for each call. `open` sets it.
  std::optional<base::Completion> completion;

  /// `verb` is a literal that names the call in messages. `order` is for outputs on a GPU.
  void open(std::string_view verb, std::weak_ptr<base::Driver> driver,
            std::shared_ptr<const base::StreamOrder> order = nullptr);
  std::string_view verb() const { return verb_; }
  /// Describes the calls: "pushpull of 'fc1_weight'", "pushpull of 3 and 159 more keys".
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

/// A pool of call lists. The lists keep their memory, so that repeated steps allocate nothing. The
/// pool groups lists by length, in powers of two. Thread-safe. Every list keeps the pool alive.
class CallPool : public std::enable_shared_from_this<CallPool> {
 public:
  /// The most bytes that the pool holds for each key in flight at once, in the lists of one length
  /// class: 2^n to 2^(n+1) - 1 keys.
  static constexpr std::size_t bytes_per_key = 1472;

  /// Takes a list of `count` calls. The calls have arbitrary contents, but no tensors. `completion`
  /// is empty.
  std::shared_ptr<CallList> take(std::size_t count);
  /// Frees the memory of the lists that are not in use.
  void drop_spares();
  /// The bytes of all lists, in use or not. Long strings in keys and lists of several devices'
  /// tensors do not count.
  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Counts;
  base::Spares<CallList>& spares_for(std::size_t count);

  std::array<base::Spares<CallList>, 64> spares_;  ///< by the length's highest bit
  std::atomic<std::size_t> bytes_{0};
};

}  // namespace tutti::runtime
