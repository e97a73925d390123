#pragma once
#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/info.h"
#include "tutti/kvstore.h"

namespace tutti {

/// Methods that a store type may lack. Every type has `barrier`, `join`, `allocate` and `counters`.
enum class Method : std::uint8_t {
  init,
  push,
  pull,
  pushpull,
  broadcast,
  reduce_scatter,
  allgather,
  all_to_all,
  row_sparse_pull,
  set_optimizer,
  save_optimizer_states,
  load_optimizer_states,
  set_gradient_compression,
  num_dead_node,
  send,
  recv,
};
inline constexpr std::size_t method_count = 16;

/// The method's name: "pushpull", "broadcast", ...
std::string_view name(Method method);

class MethodSet {
 public:
  MethodSet(std::initializer_list<Method> methods) {
    for (const Method method : methods) bits_.set(static_cast<std::size_t>(method));
  }
  bool contains(Method method) const { return bits_.test(static_cast<std::size_t>(method)); }

 private:
  std::bitset<method_count> bits_;
};

/// The properties of a backend that KVStore needs to check calls for it.
struct Traits {
  std::string type;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int nodes = 1;
  MethodSet methods;
  /// True: the store sums the tensors of a key that occurs twice in one call. False: such a call
  /// throws `duplicate_key`.
  bool sums_repeated_keys = false;
  /// Tensors may be on a GPU. If so, a key has one tensor in each list.
  bool takes_gpu_tensors = false;
  /// A key may have several tensors in a list, all on one GPU.
  bool takes_several_of_a_gpu = false;
  bool takes_cpu_tensors = true;
  /// A pushpull may have no output for a key: then this rank only contributes.
  bool may_only_contribute = false;
  /// Whether methods that add nothing, such as a broadcast, take dtypes that cannot be added.
  bool moves_any_dtype = true;
};

/// A method call with tensors that KVStore has checked:
/// - The lists are not empty, and all have the same length.
/// - Every key has at least one tensor in each list that the method takes. Only the list of outputs
///   may lack one, if the store lets a rank only contribute.
/// - The tensors of one key in a list have the same shape and dtype.
/// - These tensors are on the CPU; or there is one, on a GPU; or there are several on one GPU, if
///   the store takes them.
/// - Only methods that add nothing have tensors of a dtype that cannot be added.
/// - A key's inputs and outputs are all on the CPU, or all on one GPU.
/// - The keys are all integers or all strings, like those of the store's other calls.
/// - No two outputs overlap, and no input overlaps another key's output.
///
/// The spans refer to the caller's memory, or to copies that KVStore made. They are valid until
/// `submit` returns.
struct MethodCall {
  Method method = Method::pushpull;
  std::span<const Key> keys{};
  /// For each key a list of tensors:
  /// - init, push, pushpull, reduce_scatter: one for each device;
  /// - broadcast: the value at the root, and no tensor at the other ranks;
  /// - allgather: this rank's shard;
  /// - all_to_all: the shares that this rank has for all ranks.
  ///
  /// Other methods have no such lists.
  std::span<const Values> ins{};
  /// For each key one tensor for each device. init and push have no such lists.
  std::span<const Values> outs{};
  std::span<const Tensor> row_ids{};  ///< row_sparse_pull only; by key
  /// Only for all_to_all, which has one key: the number of elements for each pair of ranks, ordered
  /// by sender and then by receiver.
  std::span<const std::size_t> counts{};
  int root = 0;           ///< broadcast only
  CallOptions options{};  ///< `op` is `sum` where nothing is reduced
  /// Whether the calling thread waits for the call at once. Such a thread runs no callback.
  bool waits = false;
  /// A literal: the name by which the program has made the call, if that is not the method's.
  std::string_view called{};
};

/// The name of the call in messages: "pushpull", "allreduce", ...
inline std::string_view name(const MethodCall& call) {
  return call.called.empty() ? name(call.method) : call.called;
}

/// A send or a receive that KVStore has checked: the tensor is on the CPU, and the peer is another
/// rank of the store.
struct PeerRequest {
  Method method = Method::send;
  const Tensor& tensor;
  int peer = 0;  ///< for a recv also `any_rank`
  int tag = 0;
  int* source = nullptr;  ///< recv only; may be null
};

/// One method call that changes how the store works.
struct SettingCall {
  Method method = Method::set_gradient_compression;
  std::string value{};   ///< the optimizer's name, the path, the kind of compression
  double threshold = 0;  ///< set_gradient_compression only
  const Optimizer* optimizer = nullptr;  ///< set_optimizer only
  bool dump_optimizer = false;           ///< save_optimizer_states only
  bool after_tensors = false;            ///< the store has moved tensors, not objects alone
};

/// The implementation behind KVStore. There is one class for each family of store types. KVStore
/// calls only the methods that `traits` lists. In a forked child it calls no method that exchanges
/// or changes anything. Thread-safe, like KVStore.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const Traits& traits() const { return traits_; }

  /// Does not wait for other ranks. Throws an error that this rank sees alone: a key is in flight,
  /// the store has ended, or a key was never initialised. If it throws, it has submitted nothing.
  virtual Pending submit(const MethodCall& call) = 0;
  /// Like `submit`, for a send or a recv. Only stores that have these methods implement it.
  virtual Pending pass(const PeerRequest& request);
  /// May block. Throws `unsupported` if the type does not know the value.
  virtual void configure(const SettingCall& setting) = 0;

  /// Blocks until the store is closed. Meanwhile callbacks and deleters of the program may call the
  /// store, so the store stays usable until `close` returns. Throws the same errors as KVStore's
  /// `close`. May be called again.
  virtual void close() {}
  /// Closes the store for KVStore's destructor, which calls it once. Does not throw.
  virtual void end() {}

  // These methods do the same as the KVStore methods of the same names.
  virtual void barrier() = 0;
  virtual int join() = 0;
  virtual Tensor allocate(const Shape& shape, DType dtype) = 0;
  /// Returns a copy of a tensor on a GPU, in memory of its own. KVStore needs it for an input that
  /// overlaps another key's output.
  virtual Tensor copy_of(const Tensor& tensor);
  virtual Counters counters() const = 0;
  virtual int num_dead_node() const { return 0; }
  virtual std::vector<Choice> choices() const { return {}; }

 protected:
  explicit Backend(Traits traits) : traits_(std::move(traits)) {}

 private:
  const Traits traits_;
};

}  // namespace tutti
