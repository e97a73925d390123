#pragma once
#include "world.h"

namespace tutti::coordinator::test {

inline Program operator*(const Program& once, int times) {
  Program all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), once.begin(), once.end());
  return all;
}

inline Program operator+(Program a, const Program& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Op broadcast(int key, int root) {
  Op op = submit(key);
  op.signature.kind = CollectiveKind::broadcast;
  op.signature.root = root;
  return op;
}

inline Op with_dtype(Op op, DType dtype) {
  op.signature.dtype = dtype;
  return op;
}

/// Says which use of the key is meant, where a rank does not make them all.
inline Op as_use(Op op, int use) {
  op.use = use;
  return op;
}

}  // namespace tutti::coordinator::test
