#include "kvstore/checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "kvstore/order.h"

namespace tutti {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::invalid_argument, text);
}

std::string call(const MethodCall& request, const Key& key) {
  return fmt::format("{} of key {}", name(request.method), key.describe());
}

/// Whether the method is a half of a pushpull.
bool is_half(Method method) {
  return method == Method::reduce_scatter || method == Method::allgather;
}

bool takes_ins(Method method) {
  return method == Method::init || method == Method::push || method == Method::pushpull ||
         is_half(method);
}

bool takes_outs(Method method) {
  return method != Method::init && method != Method::push;
}

void check_length(const MethodCall& request, std::string_view what, std::size_t length) {
  if (length == request.keys.size()) return;
  refuse(fmt::format(
      "{} of {} keys (the first is {}) with {} lists of {}; pass one list of tensors "
      "a key",
      name(request.method), request.keys.size(), request.keys.front().describe(), length, what));
}

/// `role` is "input" or "output".
void check_values(const MethodCall& request, const Key& key, std::string_view role,
                  const Values& values) {
  if (values.empty()) {
    refuse(fmt::format("{} without {} tensor; pass one tensor, or one a device", call(request, key),
                       role == "input" ? "an input" : "an output"));
  }
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i].device().kind == Device::Kind::gpu) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: {} {} is on {}, but this build of tutti has no CUDA; copy it to "
                              "the CPU first",
                              call(request, key), role, i, name(values[i].device())));
    }
    if (i > 0 && !alike(values[i], values[0])) {
      refuse(
          fmt::format("{}: {} {} is {}, but {} 0 is {}; the tensors of one key must have the "
                      "same dtype and shape",
                      call(request, key), role, i, describe(values[i]), role, describe(values[0])));
    }
  }
}

/// The whole tensor, of which each rank has a shard.
const Tensor& whole(const MethodCall& request, std::size_t i) {
  return request.method == Method::reduce_scatter ? request.ins[i][0] : request.outs[i][0];
}

void check_shards(const MethodCall& request, std::size_t i, const Traits& traits) {
  const bool scatters = request.method == Method::reduce_scatter;
  const Tensor& of = whole(request, i);
  const Tensor& mine = scatters ? request.outs[i][0] : request.ins[i][0];
  const Shard right = shard(of.count(), traits.rank, traits.size);
  if (mine.dtype() == of.dtype() && mine.count() == right.count()) return;
  refuse(
      fmt::format("{}: the {} is {}, of which rank {} of {} has elements {} to {}; the {} must "
                  "be {} of {} elements, but is {}",
                  call(request, request.keys[i]), scatters ? "input" : "output", describe(of),
                  traits.rank, traits.size, right.begin, right.end, scatters ? "output" : "input",
                  name(of.dtype()), right.count(), describe(mine)));
}

void check_tensors(const MethodCall& request, std::size_t i, const Traits& traits) {
  const Key& key = request.keys[i];
  if (takes_ins(request.method)) check_values(request, key, "input", request.ins[i]);
  if (takes_outs(request.method)) check_values(request, key, "output", request.outs[i]);
  if (is_half(request.method)) check_shards(request, i, traits);
  if (request.method == Method::pushpull && !alike(request.ins[i][0], request.outs[i][0])) {
    refuse(
        fmt::format("{}: the input is {}, but the output is {}; both must have the same dtype "
                    "and shape",
                    call(request, key), describe(request.ins[i][0]), describe(request.outs[i][0])));
  }
}

void check_key(const MethodCall& request, const Key& key) {
  if (key.is_integer() || key.string().size() <= Key::max_bytes) return;
  refuse(fmt::format("{}: a key has at most {} bytes", call(request, key), Key::max_bytes));
}

void check_lists(const MethodCall& request) {
  if (request.keys.empty()) {
    refuse(
        fmt::format("{} with an empty list of keys; pass one key at least", name(request.method)));
  }
  for (const Key& key : request.keys) check_key(request, key);
  if (takes_ins(request.method)) check_length(request, "inputs", request.ins.size());
  if (takes_outs(request.method)) check_length(request, "outputs", request.outs.size());
  if (request.method == Method::row_sparse_pull) {
    check_length(request, "row ids", request.row_ids.size());
  }
}

void check_root(const MethodCall& request, const Traits& traits) {
  if (request.method != Method::broadcast) return;
  if (request.root >= 0 && request.root < traits.size) return;
  refuse(fmt::format("{} from root rank {}, but the ranks of this '{}' store are 0 to {}",
                     call(request, request.keys.front()), request.root, traits.type,
                     traits.size - 1));
}

/// Checked here, for an invalid number cast to ReduceOp would fail only at the coordinator, and on
/// all ranks.
void check_op(const MethodCall& request) {
  if (request.options.op <= ReduceOp::max) return;
  refuse(fmt::format("{}: {} is no reduction; take sum, average, min or max",
                     call(request, request.keys.front()), static_cast<int>(request.options.op)));
}

void check_repeated(const MethodCall& request, const Traits& traits,
                    std::vector<std::size_t>& order) {
  const bool summed = traits.sums_repeated_keys && !is_half(request.method);
  const std::span<const Key> keys = request.keys;
  if (summed || keys.size() < 2) return;
  sort_again(order, keys.size(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  const auto twice = std::adjacent_find(
      order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] == keys[b]; });
  if (twice == order.end()) return;
  throw Error(ErrorCode::duplicate_key,
              fmt::format("{}: the key stands twice in one call; sum its tensors in one list, or "
                          "give each a key of its own",
                          call(request, keys[*twice])));
}

std::string_view kind_of(const Key& key) {
  return key.is_integer() ? "an integer" : "a string";
}

}  // namespace

bool alike(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape();
}

std::string describe(const Tensor& tensor) {
  return fmt::format("{} {}", name(tensor.dtype()), tensor.shape().describe());
}

void check(const MethodCall& request, const Traits& traits, std::vector<std::size_t>& order) {
  check_lists(request);
  check_root(request, traits);
  check_op(request);
  for (std::size_t i = 0; i < request.keys.size(); ++i) check_tensors(request, i, traits);
  check_repeated(request, traits, order);
}

std::span<const std::ptrdiff_t> places_of_outputs(const MethodCall& request, const Traits& traits,
                                                  std::vector<std::ptrdiff_t>& places) {
  if (!is_half(request.method)) return {};
  places.resize(request.keys.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Tensor& of = whole(request, i);
    const auto begin = static_cast<std::ptrdiff_t>(
        shard(of.count(), traits.rank, traits.size).begin * size_of(of.dtype()));
    places[i] = request.method == Method::reduce_scatter ? begin : -begin;
  }
  return places;
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

void KeyKind::admit(std::span<const Key> keys) {
  const base::Lock lock(mutex_);
  const Key& reference = first_ ? *first_ : keys.front();
  for (const Key& key : keys) {
    if (key.is_integer() == reference.is_integer()) continue;
    refuse(
        fmt::format("key {} is {}, but key {}, which came before, is {}; the keys of one store "
                    "are all integers or all strings",
                    key.describe(), kind_of(key), reference.describe(), kind_of(reference)));
  }
  if (!first_) first_ = reference;
}

}  // namespace tutti
