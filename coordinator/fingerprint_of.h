#pragma once
#include "coordinator/fingerprint.h"
#include "coordinator/messages.h"

namespace tutti::coordinator {

inline void add_to(Fingerprint& to, const Key& key) {
  to.add(key.is_integer());
  if (key.is_integer()) {
    to.add(key.integer());
  } else {
    to.add(std::string_view(key.string()));
  }
}

inline void add_to(Fingerprint& to, const Signature& signature) {
  to.add(signature.kind).add(signature.dtype).add(signature.op).add(signature.root);
  to.add(signature.device).add(signature.wire).add(signature.counts);
  for (const std::int64_t dim : signature.shape.dims()) to.add(dim);
  to.add(signature.shape.dims().size());
}

inline void add_to(Fingerprint& to, const PlanBatch& batch) {
  to.add(batch.active_ranks).add(batch.acknowledge).add(batch.parts.size());
  for (const PlanPart& part : batch.parts) {
    to.add(part.id).add(part.round).add(part.begin).add(part.count);
  }
}

}  // namespace tutti::coordinator
