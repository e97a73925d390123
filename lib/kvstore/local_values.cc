#include "kvstore/local_values.h"

#include <cstring>
#include <vector>

#include "reduce/reduce.h"

namespace tutti {
namespace {

void count(Method method, std::size_t bytes, Counters& counters) {
  if (method == Method::broadcast) {
    ++counters.tensors_broadcast;
    counters.bytes_broadcast += bytes;
  } else if (method == Method::allgather) {
    ++counters.tensors_gathered;
    counters.bytes_gathered += bytes;
  } else {
    ++counters.tensors_reduced;
    counters.bytes_reduced += bytes;
  }
}

}  // namespace

void copy(const Tensor& from, const Tensor& to) {
  // Overlap: the same tensor may stand in a list twice. Null: a tensor without elements.
  if (from.bytes() > 0) std::memmove(to.data(), from.data(), from.bytes());
}

void merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op) {
  std::vector<const void*> sources;
  sources.reserve(ins.size());
  for (const Tensor& in : ins) sources.push_back(in.data());
  // `average` divides by the processes that contribute, and there is one.
  reduce::reduce({.in = out.dtype(), .out = out.dtype(), .op = op}, sources, out.data(),
                 out.count());
}

void exchange_alone(const MethodCall& call, Counters& counters) {
  const bool reduces = call.method == Method::pushpull || call.method == Method::reduce_scatter;
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    const Values& ins = call.ins[i];
    const Tensor& first = call.outs[i][0];
    if (reduces) merge({ins.begin(), ins.end()}, first, call.options.op);
    for (const Tensor& out : call.outs[i]) copy(reduces ? first : ins[0], out);
    count(call.method, first.bytes(), counters);
  }
  ++counters.batches;
}

}  // namespace tutti
