#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "coordinator/fingerprint.h"
#include "coordinator/messages.h"

namespace tutti::coordinator {

/// A tensor for which every rank is ready.
struct ReadyTensor {
  KeyId id = 0;
  Round round = 0;
  std::int32_t priority = 0;
  int active_ranks = 0;
  std::uint64_t start = 0;  ///< elements that have moved already
  Signature signature;
};

/// Makes batches of the tensors for which all ranks are ready. The tensor with the highest priority
/// goes first; among equal ones the tensor that was ready first. Small tensors are fused, and large
/// ones cut into parts.
class Planner {
 public:
  Planner(const Sizes& host, const Sizes& device) : host_(host), device_(device) {}

  void add(const ReadyTensor& tensor);
  bool empty() const { return classes_.empty(); }
  /// Returns the next batch, and how many bytes of one rank it moves. The planner must not be
  /// empty. A batch on a GPU counts for fewer bytes, in proportion to its larger parts.
  PlanBatch next(std::uint64_t& bytes);

  /// A tensor that waits here, and the number of its elements that are planned.
  struct Waiting {
    KeyId id = 0;
    std::uint64_t next = 0;
    bool started = false;  ///< some part is planned or has moved
  };
  std::vector<Waiting> waiting() const;
  bool has_started() const { return started_ > 0; }
  void remove(KeyId id);
  void clear();

  void fingerprint(Fingerprint& to) const;

 private:
  struct Entry {
    std::int32_t priority = 0;
    std::uint64_t sequence = 0;
    KeyId id = 0;
    Round round = 0;
    std::uint64_t next = 0;
    std::uint64_t count = 0;
    std::uint64_t element_bytes = 1;
    bool started = false;
    std::uint64_t bytes() const { return (count - next) * element_bytes; }
    bool operator<(const Entry& other) const {
      return priority != other.priority ? priority > other.priority : sequence < other.sequence;
    }
  };
  /// Tensors of one class may move in one batch.
  struct Class {
    CollectiveKind kind;
    DType dtype;
    ReduceOp op;
    int root;
    Device::Kind device;
    WireFormat wire;
    int active_ranks;
    auto operator<=>(const Class&) const = default;
  };
  using Queue = std::set<Entry>;

  const Sizes& sizes_of(const Class& what) const;
  static bool is_cut(const Entry& entry, const Sizes& sizes);
  PlanPart cut(Queue& queue, const Sizes& sizes);

  Sizes host_;
  Sizes device_;
  std::map<Class, Queue> classes_;  ///< no empty queue stays
  std::uint64_t sequence_ = 0;
  std::size_t started_ = 0;  ///< entries with `started` set
};

}  // namespace tutti::coordinator
