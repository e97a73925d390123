#include "kvstore/peer_checks.h"

#include <fmt/format.h>

#include <string>

#include "kvstore/checks.h"
#include "tutti/error.h"

namespace tutti {
namespace {

void check_peer(const PeerRequest& request, const Traits& traits, const std::string& call) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, call + why);
  };
  const bool receives = request.method == Method::recv;
  if (receives && request.peer == any_rank) {
    if (traits.size == 1) refuse(": this store has no other rank; copy the tensor");
    return;
  }
  if (request.peer < 0 || request.peer >= traits.size) {
    refuse(fmt::format(", but the ranks of this '{}' store are 0 to {}", traits.type,
                       traits.size - 1));
  }
  if (request.peer == traits.rank) refuse(", which is this rank itself; copy the tensor");
}

}  // namespace

void check(const PeerRequest& request, const Traits& traits) {
  const bool sends = request.method == Method::send;
  const std::string peer =
      request.peer == any_rank && !sends ? "any rank" : fmt::format("rank {}", request.peer);
  const std::string call = fmt::format("{} of {} {} {}", name(request.method),
                                       describe(request.tensor), sends ? "to" : "from", peer);
  check_peer(request, traits, call);
  if (request.tag < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} with tag {}: a tag must be 0 or more", call, request.tag));
  }
  if (is_on_gpu(request.tensor)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: the tensor is on {}, but {} takes tensors on the CPU; copy the "
                            "tensor {}",
                            call, name(request.tensor.device()), name(request.method),
                            sends ? "there first" : "back from one there"));
  }
}

}  // namespace tutti
