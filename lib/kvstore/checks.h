#pragma once
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "kvstore/backend.h"
#include "tutti/options.h"
#include "tutti/wire_format.h"

namespace tutti {

/// Finds the errors in a call that this rank can see alone: errors in lists, tensors, root and op,
/// and repeated keys. Throws `invalid_argument`, `unsupported` or `duplicate_key`. The error names
/// the key, the values and what to do. `order` is memory for sorting the keys; pass the `order` of
/// an earlier call (see `sort_again`).
void check(const MethodCall& call, const Traits& traits, std::vector<std::size_t>& order);

/// A place at which no output begins.
inline constexpr std::ptrdiff_t nowhere = std::numeric_limits<std::ptrdiff_t>::min();

/// Some outputs hold, while they are written, the same elements as the input that is read
/// meanwhile. Returns for each key how many bytes behind the beginning of its input such an output
/// begins. An empty result means 0 for every key. `places` is memory for the result.
std::span<const std::ptrdiff_t> places_of_outputs(const MethodCall& call, const Traits& traits,
                                                  std::vector<std::ptrdiff_t>& places);

/// Whether the two tensors have the same dtype and shape.
bool alike(const Tensor& a, const Tensor& b);
bool is_on_gpu(const Tensor& tensor);
/// Whether the two tensors are both on the CPU, or both on one GPU.
bool are_together(const Tensor& a, const Tensor& b);
/// Describes a tensor in the form "f32 (2, 3)".
std::string describe(const Tensor& tensor);

/// If the options ask for a timeline, logs that none is written, because the store records none.
/// `store` names the store, such as "store type 'local'".
void warn_of_no_timeline(const Options& options, std::string_view store);

/// Reads the argument of `set_gradient_compression` for stores that send f32 tensors as they are or
/// in 16 bits: "none", "fp16" or "bf16". Throws `unsupported` for any other.
WireFormat wire_format(const std::string& kind, const std::string& type);

/// Whether a call broadcasts or gathers only under reserved keys. Libraries that are built on
/// stores move their objects in this way.
bool moves_objects(const MethodCall& call);

/// Remembers whether a store's keys are integers or strings: the first call decides. Reserved keys
/// are of neither kind. Thread-safe.
class KeyKind {
 public:
  /// Throws `invalid_argument` unless all keys are of the store's kind.
  void admit(std::span<const Key> keys) TUTTI_EXCLUDES(mutex_);

 private:
  base::Mutex mutex_{5};
  std::optional<Key> first_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
