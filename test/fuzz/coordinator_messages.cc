#include "coordinator/wire.h"
#include "fuzz/decoders.h"

namespace tutti::fuzz {
namespace {

using namespace coordinator;

constexpr Decoder all[] = {{read_message<decode_to_coordinator>}, {read_message<decode_to_rank>}};

const Failure failure{ErrorCode::mismatch, "ranks 1 and 2 said", {1, 2}};
const Signature signature{.dtype = DType::f16, .op = ReduceOp::max, .root = 1, .shape = {3, 4}};
const std::vector<PlanBatch> batches{{3, true, {{1, 2, 3, 4}, {2, 2, 0, 9}}}, {2, false, {}}};

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  std::vector<Seed> seeds;
  const Report report{2, 7, {{1, 2, 3, Time(4)}}, {{"w", signature, 1, 2, Time(5)}}};
  add_messages<ToCoordinator>(
      seeds, 0,
      {report, JoinAsked{1}, DepartAsked{1}, Drained{1}, Left{1},
       Escape{1, EscapeReason::request, "why"}, Stopped{1, 9}, LostRank{1, "gone"}});
  add_messages<ToRank>(seeds, 1,
                       {Plan{1, 5, {{1, "w", signature}, {2, 7, {}}}, batches},
                        Failed{1, "w", 3, failure}, JoinOver{1, 2, {}}, Drain{1}, Departed{1},
                        Stop{1}, Resume{1, 2, batches, 3}, LostRank{1, "gone"}});
  return seeds;
}

}  // namespace tutti::fuzz
