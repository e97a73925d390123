#pragma once
// The content of the opaque handles of tutti/c.h.
#include <memory>

#include "tutti/c.h"
#include "tutti/tutti.h"

struct tutti_store {
  std::unique_ptr<tutti::KVStore> store;
};

struct tutti_options {
  tutti::Options options;
};

struct tutti_tensor {
  tutti::Tensor tensor;
};

struct tutti_pending {
  tutti::Pending pending;
};

struct tutti_bound {
  tutti::Bound bound;
};
