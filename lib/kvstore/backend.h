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

/// What a store type may or may not offer. `barrier`, `join`, `allocate` and `counters` every type
/// has.
enum class Method : std::uint8_t {
  init,
  push,
  pull,
  pushpull,
  broadcast,
  reduce_scatter,
  allgather,
  row_sparse_pull,
  set_optimizer,
  save_optimizer_states,
  load_optimizer_states,
  set_gradient_compression,
};
inline constexpr std::size_t method_count = 12;

/// "pushpull", "broadcast", ...
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

/// What KVStore needs to know of a backend to check calls on its behalf.
struct Traits {
  std::string type;
  int rank = 0;
  int size = 1;
  MethodSet methods;
  /// A key that stands twice in one call is summed; otherwise it is `duplicate_key`.
  bool sums_repeated_keys = false;
};

/// One call about tensors, checked: the lists are equally long and not empty, every key has one
/// tensor at least where its method takes any, the tensors of one key agree in shape and dtype and
/// are on the CPU, the keys are of the store's one kind, and no input overlaps memory that another
/// key's output will be written to. Views into what the caller passed, or what KVStore made of it,
/// good until `submit` returns.
struct MethodCall {
  Method method = Method::pushpull;
  std::span<const Key> keys{};
  /// By key: init, push, pushpull, reduce_scatter: one tensor a device. broadcast: the value at the
  /// root, empty at the other ranks. allgather: this rank's shard. Else: no elements.
  std::span<const Values> ins{};
  /// By key: all but init and push: one tensor a device. Else: no elements.
  std::span<const Values> outs{};
  std::span<const Tensor> row_ids{};  ///< row_sparse_pull only; by key
  int root = 0;                       ///< broadcast only
  CallOptions options{};              ///< `op` is `sum` where nothing is reduced
};

/// One call that changes how the store works.
struct Setting {
  Method method = Method::set_gradient_compression;
  std::string value{};          ///< the optimizer's name, the path, the kind of compression
  bool dump_optimizer = false;  ///< save_optimizer_states only
};

/// What stands behind KVStore: one class for each family of store types. Only methods that the
/// traits list arrive. Thread-safe, like KVStore.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const Traits& traits() const { return traits_; }

  /// Never blocks for other ranks. Throws what is wrong locally (`duplicate_key` in flight, the
  /// store's own death, a key that was never initialised); nothing was submitted then.
  virtual Pending submit(const MethodCall& request) = 0;
  /// May block. Throws `unsupported` for a value the type does not know.
  virtual void configure(const Setting& setting) = 0;

  // As the methods of KVStore with these names.
  virtual void barrier() = 0;
  virtual int join() = 0;
  virtual Tensor allocate(const Shape& shape, DType dtype) = 0;
  virtual Counters counters() const = 0;
  virtual std::vector<Choice> choices() const { return {}; }

 protected:
  explicit Backend(Traits traits) : traits_(std::move(traits)) {}

 private:
  const Traits traits_;
};

}  // namespace tutti
