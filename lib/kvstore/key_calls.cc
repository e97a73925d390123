#include "kvstore/key_calls.h"

#include <fmt/format.h>

#include "kvstore/checks.h"
#include "tutti/error.h"

namespace tutti {

void refuse(const MethodCall& call, const Key& key, const std::string& text) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} of key {}: {}", name(call), key.describe(), text), {.key = key});
}

std::map<Key, KeyCall> by_key(const MethodCall& call) {
  std::map<Key, KeyCall> calls;
  const auto append = [](std::vector<Tensor>& all, const Values& values) {
    all.insert(all.end(), values.begin(), values.end());
  };
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    KeyCall& key_call = calls[call.keys[i]];
    if (!call.ins.empty()) append(key_call.ins, call.ins[i]);
    if (!call.outs.empty()) append(key_call.outs, call.outs[i]);
  }
  return calls;
}

void check_alike(const MethodCall& call, const Key& key, const KeyCall& key_call) {
  for (const auto* list : {&key_call.ins, &key_call.outs}) {
    for (const Tensor& tensor : *list) {
      if (alike(tensor, key_call.any())) continue;
      refuse(call, key,
             fmt::format("the key stands twice in one call, once as {} and once as {}",
                         describe(key_call.any()), describe(tensor)));
    }
  }
}

}  // namespace tutti
