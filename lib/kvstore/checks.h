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

/// Finds errors in a call that this rank can see alone: in lists, tensors, root, op and repeated
/// keys. Throws `invalid_argument`, `unsupported` or `duplicate_key`, and names the key, the values
/// and what to do. `order`: memory for sorting the keys; pass what an earlier call left (see
/// `sort_again`).
void check(const MethodCall& call, const Traits& traits, std::vector<std::size_t>& order);

/// A place that no output has.
inline constexpr std::ptrdiff_t nowhere = std::numeric_limits<std::ptrdiff_t>::min();

/// For each key: how many bytes behind its input's beginning an output may begin that is written
/// while the input is read, because the same elements lie there. An empty result means 0 for every
/// key. `places`: memory for the result.
std::span<const std::ptrdiff_t> places_of_outputs(const MethodCall& call, const Traits& traits,
                                                  std::vector<std::ptrdiff_t>& places);

/// Whether both have the same dtype and shape.
bool alike(const Tensor& a, const Tensor& b);
bool is_on_gpu(const Tensor& tensor);
/// Whether both are on the CPU, or both on one GPU.
bool are_together(const Tensor& a, const Tensor& b);
/// "f32 (2, 3)".
std::string describe(const Tensor& tensor);

/// Logs that no timeline is written, if one is asked for: `store`, such as "store type 'local'",
/// records none.
void warn_of_no_timeline(const Options& options, std::string_view store);

/// Reads the argument of `set_gradient_compression` for stores that send f32 tensors as they are or
/// in 16 bits: "none", "fp16" or "bf16". Throws `unsupported` for any other.
WireFormat wire_format(const std::string& kind, const std::string& type);

/// Whether a call moves only objects of libraries that are built on stores: it broadcasts or
/// gathers under reserved keys.
bool moves_objects(const MethodCall& call);

/// Remembers whether a store's keys are integers or strings: the first call decides. Reserved keys
/// are of neither kind. Thread-safe.
class KeyKind {
 public:
  /// Throws `invalid_argument` when the keys are not all of the store's kind.
  void admit(std::span<const Key> keys) TUTTI_EXCLUDES(mutex_);

 private:
  base::Mutex mutex_{5};
  std::optional<Key> first_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
