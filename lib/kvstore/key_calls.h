#pragma once
#include <map>
#include <vector>

#include "kvstore/backend.h"

namespace tutti {

/// The tensors that one call has for one key. The key may occur several times in the call.
struct KeyCall {
  std::vector<Tensor> ins;
  std::vector<Tensor> outs;
  const Tensor& any() const { return ins.empty() ? outs.front() : ins.front(); }
};

std::map<Key, KeyCall> by_key(const MethodCall& call);

/// Throws `invalid_argument` unless all tensors of the key have the same shape and dtype, wherever
/// in the call the key occurs.
void check_alike(const MethodCall& call, const Key& key, const KeyCall& key_call);

/// Throws an `invalid_argument` whose text begins "push of key 'w': ...".
[[noreturn]] void refuse(const MethodCall& call, const Key& key, const std::string& text);

}  // namespace tutti
