#include "kvstore/local_values.h"

#include <cstring>
#include <vector>

#include "base/own_tensor.h"
#include "reduce/reduce.h"

namespace tutti {
namespace {

class HostMemory final : public LocalMemory {
 public:
  Tensor own(const Shape& shape, DType dtype) override { return base::own_tensor(shape, dtype); }
  void copy(const Tensor& from, const Tensor& to) override {
    // The same tensor may occur twice in a list, so the memory may overlap. A tensor without
    // elements may have a null pointer.
    if (from.bytes() > 0) std::memmove(to.data(), from.data(), from.bytes());
  }
  void merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op) override {
    tutti::merge(ins, out, op);
  }
  /// Returns a copy, because a caller's array may have any alignment.
  Tensor merged_on_host(std::span<const Tensor> ins, ReduceOp op) override {
    Tensor merged = own(ins.front().shape(), ins.front().dtype());
    merge(ins, merged, op);
    return merged;
  }
  Tensor on_host(const Tensor& value) override { return value; }
  void put_back(const Tensor& on_host, const Tensor& to) override { copy(on_host, to); }
};

}  // namespace

LocalMemory& host_memory() {
  static HostMemory memory;
  return memory;
}

void merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op) {
  std::vector<const void*> sources;
  sources.reserve(ins.size());
  for (const Tensor& in : ins) sources.push_back(in.data());
  // `average` divides by the number of processes that contribute, which is one here.
  reduce::reduce({.in = out.dtype(), .out = out.dtype(), .op = op}, sources, out.data(),
                 out.count());
}

namespace {

void exchange(const MethodCall& call, const LocalPlaces::Call& here, LocalCounters& counters) {
  const bool reduces = call.method == Method::pushpull || call.method == Method::reduce_scatter;
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    const Values& ins = call.ins[i];
    if (call.outs[i].empty()) {
      counters.add(call.method, ins[0].bytes());
      continue;
    }
    const Tensor& first = call.outs[i][0];
    LocalMemory& memory = here.memory_of(first);
    if (reduces) memory.merge({ins.begin(), ins.end()}, first, call.options.op);
    for (const Tensor& out : call.outs[i]) memory.copy(reduces ? first : ins[0], out);
    counters.add(call.method, first.bytes());
  }
  counters.add_batch();
}

}  // namespace

Pending exchange_alone(const MethodCall& call, LocalPlaces& places, LocalCounters& counters) {
  LocalPlaces::Call here(places, call);
  try {
    exchange(call, here, counters);
  } catch (const Error& error) {
    here.rethrow(error);
  }
  return here.end();
}

}  // namespace tutti
