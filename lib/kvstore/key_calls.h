#pragma once
#include <map>
#include <vector>

#include "kvstore/backend.h"

namespace tutti {

/// Everything that one call says about one key, which may stand in it several times.
struct KeyCall {
  std::vector<Tensor> ins;
  std::vector<Tensor> outs;
  const Tensor& any() const { return ins.empty() ? outs.front() : ins.front(); }
};

std::map<Key, KeyCall> by_key(const MethodCall& call);

/// Throws `invalid_argument` unless the tensors of every place where the key stands are alike.
void check_alike(Method method, const Key& key, const KeyCall& key_call);

/// An `invalid_argument`: "push of key 'w': ...".
[[noreturn]] void refuse(Method method, const Key& key, const std::string& text);

}  // namespace tutti
