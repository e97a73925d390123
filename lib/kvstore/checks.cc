#include "kvstore/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "coordinator/types.h"
#include "cuda/gpu.h"
#include "kvstore/order.h"

namespace tutti {
namespace {

[[noreturn]] void refuse(const std::string& text, std::optional<Key> key = {}) {
  throw Error(ErrorCode::invalid_argument, text, {.key = std::move(key)});
}

std::string describe(const MethodCall& call, const Key& key) {
  return fmt::format("{} of key {}", name(call), key.describe());
}

/// Whether the method is one half of a pushpull: reduce_scatter or allgather.
bool is_half(Method method) {
  return method == Method::reduce_scatter || method == Method::allgather;
}

bool takes_ins(Method method) {
  return method == Method::init || method == Method::push || method == Method::pushpull ||
         method == Method::all_to_all || is_half(method);
}

bool takes_outs(Method method) {
  return method != Method::init && method != Method::push;
}

void check_length(const MethodCall& call, std::string_view what, std::size_t length) {
  if (length == call.keys.size()) return;
  refuse(
      fmt::format("{} of {} keys (the first is {}) got {} lists of {}; pass one list for each key",
                  name(call), call.keys.size(), call.keys.front().describe(), length, what));
}

bool is_reserved(const Key& key) {
  return !key.is_integer() && key.string().starts_with("tutti:");
}

/// Throws if this store takes no tensors on the CPU. Such a store still takes them under the
/// reserved keys of libraries that are built on stores.
void check_cpu(const MethodCall& call, const Key& key, std::string_view role,
               const Traits& traits) {
  if (traits.takes_cpu_tensors || is_reserved(key)) return;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("{}: {} 0 is on the CPU, but a store of type '{}' takes tensors on a GPU; "
                  "ask for 'device' or 'local'",
                  describe(call, key), role, traits.type),
      {.key = key});
}

/// Throws if the list has tensors on a GPU and this store does not take them.
void check_devices(const MethodCall& call, const Key& key, std::string_view role,
                   const Values& values, const Traits& traits) {
  const auto* const on_gpu = std::find_if(values.begin(), values.end(), is_on_gpu);
  if (on_gpu == values.end()) return check_cpu(call, key, role, traits);
  const std::string which = fmt::format("{}: {} {} is on {}, but ", describe(call, key), role,
                                        on_gpu - values.begin(), name(on_gpu->device()));
  const auto refuse_gpu = [&](const std::string& why) {
    throw Error(ErrorCode::unsupported, which + why, {.key = key});
  };
  if (!cuda::is_built()) {
    refuse_gpu("this build of tutti has no CUDA; copy the tensor to the CPU, and the result back");
  }
  if (!traits.takes_gpu_tensors) {
    refuse_gpu(
        fmt::format("a store of type '{}' takes tensors on the CPU; copy the tensor there, and "
                    "the result back",
                    traits.type));
  }
  if (values.size() > 1 && !traits.takes_several_of_a_gpu) {
    refuse_gpu(
        fmt::format("the key has {} of them; a process may pass one tensor on its GPU for each key",
                    values.size()));
  }
  for (const Tensor& other : values) {
    if (other.device() == on_gpu->device()) continue;
    refuse_gpu(fmt::format("another is on {}; the tensors of one key must be on one GPU",
                           name(other.device())));
  }
}

bool is_adding(Method method) {
  return method == Method::push || method == Method::pushpull || method == Method::reduce_scatter;
}

void check_dtype(const MethodCall& call, const Key& key, std::string_view role,
                 const Tensor& tensor, const Traits& traits) {
  if (is_arithmetic(tensor.dtype()) || (traits.moves_any_dtype && !is_adding(call.method))) return;
  const std::string what = fmt::format("{}: the {} is {}, whose elements cannot be added",
                                       describe(call, key), role, describe(tensor));
  if (!traits.moves_any_dtype) {
    refuse(fmt::format("{}, and a store of type '{}' only takes elements that can; pass the "
                       "bytes as u8, in a tensor that shares the memory",
                       what, traits.type),
           key);
  }
  refuse(what +
             "; convert the tensor to a dtype of numbers and copy the result back, or only move "
             "it: broadcast, allgather and all_to_all take it as it is",
         key);
}

/// `role` is "input" or "output".
void check_values(const MethodCall& call, const Key& key, std::string_view role,
                  const Values& values, const Traits& traits) {
  if (values.empty()) {
    refuse(fmt::format("{} got no {} tensor; pass one tensor, or one for each device",
                       describe(call, key), role),
           key);
  }
  check_devices(call, key, role, values, traits);
  check_dtype(call, key, role, values[0], traits);
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && !alike(values[i], values[0])) {
      refuse(
          fmt::format("{}: {} {} is {}, but {} 0 is {}; the tensors of one key must have the "
                      "same dtype and shape",
                      describe(call, key), role, i, describe(values[i]), role, describe(values[0])),
          key);
    }
  }
}

/// The whole tensor, of which each rank has a shard.
const Tensor& whole(const MethodCall& call, std::size_t i) {
  return call.method == Method::reduce_scatter ? call.ins[i][0] : call.outs[i][0];
}

void check_shards(const MethodCall& call, std::size_t i, const Traits& traits) {
  const bool scatters = call.method == Method::reduce_scatter;
  const Tensor& of = whole(call, i);
  const Tensor& mine = scatters ? call.outs[i][0] : call.ins[i][0];
  const Shard right = shard(of.count(), traits.rank, traits.size);
  if (mine.dtype() == of.dtype() && mine.count() == right.count()) return;
  refuse(
      fmt::format("{}: the {} is {}, of which rank {} of {} has elements {} to {}; the {} must "
                  "be {} of {} elements, but is {}",
                  describe(call, call.keys[i]), scatters ? "input" : "output", describe(of),
                  traits.rank, traits.size, right.begin, right.end, scatters ? "output" : "input",
                  name(of.dtype()), right.count(), describe(mine)),
      call.keys[i]);
}

[[noreturn]] void refuse_line(const MethodCall& call, std::size_t rank, bool sends,
                              const std::string& text) {
  const Key& key = call.keys.front();
  refuse(fmt::format("{}: by the matrix of counts rank {} {} {}", describe(call, key), rank,
                     sends ? "sends" : "receives", text),
         key);
}

/// The number of elements that a rank sends or receives.
std::size_t sum_of_line(const MethodCall& call, std::size_t ranks, std::size_t rank, bool sends) {
  constexpr std::size_t most = std::size_t{1} << 62;
  std::size_t sum = 0;
  for (std::size_t other = 0; other < ranks; ++other) {
    const std::size_t count = call.counts[sends ? rank * ranks + other : other * ranks + rank];
    if (count > most - sum) refuse_line(call, rank, sends, "more than 2^62 elements");
    sum += count;
  }
  return sum;
}

/// Checks the matrix. Also checks that the input has as many elements as this rank's row of the
/// matrix says, and the output as many as its column says.
void check_counts(const MethodCall& call, const Traits& traits) {
  const Key& key = call.keys.front();
  const auto n = static_cast<std::size_t>(traits.size);
  if (call.ins[0][0].dtype() != call.outs[0][0].dtype()) {
    refuse(fmt::format("{}: the input is {}, but the output is {}; both must have the same dtype",
                       describe(call, key), describe(call.ins[0][0]), describe(call.outs[0][0])),
           key);
  }
  if (call.counts.size() != n * n) {
    refuse(fmt::format("{}: the matrix has {} counts, but {} ranks need {}: one for each sender "
                       "and receiver",
                       describe(call, key), call.counts.size(), n, n * n),
           key);
  }
  for (std::size_t rank = 0; rank < n; ++rank) {
    for (const bool sends : {true, false}) {
      const std::size_t sum = sum_of_line(call, n, rank, sends);
      const Tensor& tensor = sends ? call.ins[0][0] : call.outs[0][0];
      if (rank != static_cast<std::size_t>(traits.rank) || sum == tensor.count()) continue;
      refuse_line(call, rank, sends,
                  fmt::format("{} elements, but its {} is {}", sum, sends ? "input" : "output",
                              describe(tensor)));
    }
  }
}

void check_tensors(const MethodCall& call, std::size_t i, const Traits& traits) {
  const Key& key = call.keys[i];
  if (takes_ins(call.method)) check_values(call, key, "input", call.ins[i], traits);
  const bool adds = call.method == Method::pushpull && traits.may_only_contribute;
  if (adds && call.outs[i].empty()) return;
  if (takes_outs(call.method)) check_values(call, key, "output", call.outs[i], traits);
  if (takes_ins(call.method) && takes_outs(call.method) &&
      !are_together(call.ins[i][0], call.outs[i][0])) {
    refuse(fmt::format("{}: the input is on {}, but the output is on {}; both must be on the CPU, "
                       "or both on one GPU",
                       describe(call, key), name(call.ins[i][0].device()),
                       name(call.outs[i][0].device())),
           key);
  }
  if (is_half(call.method)) check_shards(call, i, traits);
  if (call.method == Method::all_to_all) check_counts(call, traits);
  if (call.method == Method::pushpull && !alike(call.ins[i][0], call.outs[i][0])) {
    refuse(fmt::format("{}: the input is {}, but the output is {}; both must have the same dtype "
                       "and shape",
                       describe(call, key), describe(call.ins[i][0]), describe(call.outs[i][0])),
           key);
  }
}

void check_key(const MethodCall& call, const Key& key) {
  if (coordinator::is_barrier(key)) {
    refuse(fmt::format("{}: the store itself uses this key, for its barriers; pass another key",
                       describe(call, key)),
           key);
  }
  if (key.is_integer() || key.string().size() <= Key::max_bytes) return;
  refuse(fmt::format("{}: a key has at most {} bytes", describe(call, key), Key::max_bytes), key);
}

void check_lists(const MethodCall& call) {
  if (call.keys.empty()) {
    refuse(fmt::format("{} got an empty list of keys; pass at least one key", name(call)));
  }
  for (const Key& key : call.keys) check_key(call, key);
  if (takes_ins(call.method)) check_length(call, "inputs", call.ins.size());
  if (takes_outs(call.method)) check_length(call, "outputs", call.outs.size());
  if (call.method == Method::row_sparse_pull) {
    check_length(call, "row ids", call.row_ids.size());
  }
}

void check_root(const MethodCall& call, const Traits& traits) {
  if (call.method != Method::broadcast) return;
  if (call.root >= 0 && call.root < traits.size) return;
  refuse(fmt::format("{} from root rank {}, but the ranks of this '{}' store are 0 to {}",
                     describe(call, call.keys.front()), call.root, traits.type, traits.size - 1),
         call.keys.front());
}

/// This is checked here, before the call is submitted. An invalid number that was cast to ReduceOp
/// would otherwise fail only at the coordinator, and then on all ranks.
void check_op(const MethodCall& call) {
  if (call.options.op <= ReduceOp::max) return;
  refuse(fmt::format("{}: op {} is not known; pass sum, average, min or max",
                     describe(call, call.keys.front()), static_cast<int>(call.options.op)),
         call.keys.front());
}

void check_repeated(const MethodCall& call, const Traits& traits, std::vector<std::size_t>& order) {
  const bool summed = traits.sums_repeated_keys && !is_half(call.method);
  const std::span<const Key> keys = call.keys;
  if (summed || keys.size() < 2) return;
  sort_again(order, keys.size(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  const auto twice = std::adjacent_find(
      order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] == keys[b]; });
  if (twice == order.end()) return;
  throw Error(ErrorCode::duplicate_key,
              fmt::format("{}: the key stands twice in one call; pass all its tensors in one "
                          "list, or give each tensor a key of its own",
                          describe(call, keys[*twice])),
              {.key = keys[*twice]});
}

std::string_view kind_of(const Key& key) {
  return key.is_integer() ? "an integer" : "a string";
}

}  // namespace

bool alike(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape();
}

bool is_on_gpu(const Tensor& tensor) {
  return tensor.device().kind == Device::Kind::gpu;
}

bool are_together(const Tensor& a, const Tensor& b) {
  return is_on_gpu(a) ? a.device() == b.device() : !is_on_gpu(b);
}

std::string describe(const Tensor& tensor) {
  return fmt::format("{} {}", name(tensor.dtype()), tensor.shape().describe());
}

void check(const MethodCall& call, const Traits& traits, std::vector<std::size_t>& order) {
  check_lists(call);
  check_root(call, traits);
  check_op(call);
  for (std::size_t i = 0; i < call.keys.size(); ++i) check_tensors(call, i, traits);
  check_repeated(call, traits, order);
}

std::span<const std::ptrdiff_t> places_of_outputs(const MethodCall& call, const Traits& traits,
                                                  std::vector<std::ptrdiff_t>& places) {
  // Unless there is only one share, a share has another place in the output than in the input.
  if (call.method == Method::all_to_all && traits.size > 1) {
    places.assign(1, nowhere);
    return places;
  }
  if (!is_half(call.method)) return {};
  places.resize(call.keys.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Tensor& of = whole(call, i);
    const auto begin = static_cast<std::ptrdiff_t>(
        shard(of.count(), traits.rank, traits.size).begin * size_of(of.dtype()));
    places[i] = call.method == Method::reduce_scatter ? begin : -begin;
  }
  return places;
}

void warn_of_no_timeline(const Options& options, std::string_view store) {
  if (options.timeline.empty()) return;
  base::log().warn(
      "{} records no timeline, so it does not write {} (TUTTI_TIMELINE); a 'dist_sync_mpi' store "
      "over several ranks records one",
      store, base::quoted(options.timeline));
}

WireFormat wire_format(const std::string& kind, const std::string& type) {
  if (kind == "none") return WireFormat::none;
  if (kind == "fp16") return WireFormat::fp16;
  if (kind == "bf16") return WireFormat::bf16;
  throw Error(ErrorCode::unsupported,
              fmt::format("gradient compression {} is not supported by store type '{}', which "
                          "knows 'none', 'fp16' and 'bf16' (parameter servers: '2bit', '1bit')",
                          base::quoted(kind), type));
}

bool moves_objects(const MethodCall& call) {
  return (call.method == Method::broadcast || call.method == Method::allgather) &&
         std::all_of(call.keys.begin(), call.keys.end(), is_reserved);
}

void KeyKind::admit(std::span<const Key> keys) {
  const base::Lock lock(mutex_);
  const Key* reference = first_ ? &*first_ : nullptr;
  for (const Key& key : keys) {
    if (is_reserved(key)) continue;
    if (reference == nullptr) reference = &key;
    if (key.is_integer() == reference->is_integer()) continue;
    refuse(fmt::format("key {} is {}, but the earlier key {} is {}; the keys of one store must "
                       "be all integers or all strings",
                       key.describe(), kind_of(key), reference->describe(), kind_of(*reference)),
           key);
  }
  if (!first_ && reference != nullptr) first_ = *reference;
}

}  // namespace tutti
