#include "runtime/call_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "shm/arena.h"
#include "tutti/quick_deleter.h"

namespace tutti::runtime {

namespace {

/// A hash of the numbers. Each number changes all of its bits.
std::uint64_t hash_of(std::span<const std::size_t> numbers) {
  std::uint64_t hash = 0;
  for (const std::size_t number : numbers) {
    hash += number + 0x9E37'79B9'7F4A'7C15;
    hash = (hash ^ hash >> 30) * 0xBF58'476D'1CE4'E5B9;
    hash = (hash ^ hash >> 27) * 0x94D0'49BB'1331'11EB;
    hash ^= hash >> 31;
  }
  return hash;
}

/// The number of elements of the rank that sends or receives most.
std::size_t busiest(std::span<const std::size_t> counts, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < n; ++rank) {
    std::size_t sent = 0;
    std::size_t received = 0;
    for (std::size_t other = 0; other < n; ++other) {
      sent += counts[rank * n + other];
      received += counts[other * n + rank];
    }
    most = std::max({most, sent, received});
  }
  return most;
}

}  // namespace

static_assert(2 * sizeof(TensorCall) + sizeof(CallList) <= CallPool::bytes_per_key);

bool TensorCall::has_foreign_deleter() const {
  const auto is_foreign = [](const Tensor& tensor) {
    const std::shared_ptr<void>& owner = tensor.owner();
    return owner != nullptr && std::get_deleter<QuickDeleter>(owner) == nullptr &&
           std::get_deleter<shm::Arena::GiveBack>(owner) == nullptr;
  };
  return std::any_of(ins.begin(), ins.end(), is_foreign) ||
         std::any_of(outs.begin(), outs.end(), is_foreign);
}

void TensorCall::set_counts(std::span<const std::size_t> matrix, int ranks) {
  counts.assign(matrix.begin(), matrix.end());
  signature.counts = hash_of(matrix);
  signature.shape = Shape{static_cast<std::int64_t>(busiest(matrix, ranks))};
}

void TensorCall::drop_tensors() {
  ins.clear();
  outs.clear();
  ready.reset();
}

void CallList::resize(std::size_t count) {
  // Reserves room for the longest list of this pool's length class, so that no list grows later.
  const std::size_t room = (std::size_t{1} << std::bit_width(count)) - 1;
  if (memory_.size() < room) memory_.resize(room);
  calls = {memory_.data(), count};
}

void CallList::open(std::string_view verb, std::weak_ptr<base::Driver> driver,
                    std::shared_ptr<const base::StreamOrder> order) {
  verb_ = verb;
  begun = 0;
  completion.emplace(
      calls.size(), [this] { return describe(); }, std::move(driver), std::move(order));
}

std::string CallList::describe() const {
  if (coordinator::is_barrier(calls.front().key)) return std::string(verb_);
  std::string first = fmt::format("{} of {}", verb_, calls.front().key.describe());
  const std::size_t more = calls.size() - 1;
  if (more == 0) return first;
  return fmt::format("{} and {} more key{}", first, more, more == 1 ? "" : "s");
}

/// An allocator that puts a shared_ptr's control block into the list to which the pointer points.
/// The block is freed last, and that returns the list to its pool.
struct CallPool::Counts {
  /// The deleter. It runs when the last Pending and the executor have released the list.
  struct End {
    void operator()(CallList* list) const {
      // Resetting the events returns them to a pool. The completion's stream order may be the last
      // owner of that pool.
      for (TensorCall& call : list->calls) call.ready.reset();
      list->completion.reset();
      for (TensorCall& call : list->calls) call.drop_tensors();
    }
  };

  template <typename T>
  struct Allocator {
    using value_type = T;

    explicit Allocator(CallList* list_) : list(list_) {}
    template <typename Other>
    // NOLINTNEXTLINE(google-explicit-constructor): allocators convert.
    Allocator(const Allocator<Other>& other) : list(other.list) {}

    T* allocate(std::size_t count) {
      static_assert(sizeof(T) <= sizeof(CallList::counts_));
      static_cast<void>(count);
      return reinterpret_cast<T*>(list->counts_.data());
    }
    void deallocate(T* counts, std::size_t count) noexcept {
      static_cast<void>(counts);
      static_cast<void>(count);
      const std::shared_ptr<CallPool> pool = std::move(list->pool_);
      pool->spares_for(list->calls.size()).give_back(std::unique_ptr<CallList>(list));
    }
    template <typename Other>
    bool operator==(const Allocator<Other>& other) const {
      return list == other.list;
    }

    CallList* list;
  };
};

base::Spares<CallList>& CallPool::spares_for(std::size_t count) {
  return spares_[static_cast<std::size_t>(std::bit_width(count))];
}

void CallPool::drop_spares() {
  for (base::Spares<CallList>& spares : spares_) {
    for (const std::unique_ptr<CallList>& list : spares.take_all()) bytes_ -= list->bytes();
  }
}

std::shared_ptr<CallList> CallPool::take(std::size_t count) {
  std::unique_ptr<CallList> list = spares_for(count).take();
  const std::size_t before = list->bytes();
  try {
    list->resize(count);
  } catch (...) {
    spares_for(count).give_back(std::move(list));
    throw;
  }
  if (list->bytes() > before) bytes_ += list->bytes() - before;
  list->pool_ = shared_from_this();
  CallList* const raw = list.release();
  return {raw, Counts::End(), Counts::Allocator<CallList>(raw)};
}

}  // namespace tutti::runtime
