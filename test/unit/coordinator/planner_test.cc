#include "coordinator/planner.h"

#include <catch2/catch.hpp>
#include <string>

#include <fmt/format.h>

using namespace tutti;
using namespace tutti::coordinator;

namespace {

ReadyTensor tensor(KeyId id, std::int64_t count, int priority = 0, DType dtype = DType::f32) {
  return {.id = id,
          .round = 0,
          .priority = priority,
          .active_ranks = 2,
          .start = 0,
          .signature = {.dtype = dtype, .shape = Shape{count}}};
}

std::string batch(Planner& planner) {
  std::uint64_t bytes = 0;
  std::string text;
  for (const PlanPart& part : planner.next(bytes).parts) {
    text += fmt::format("{}{}[{},{})", text.empty() ? "" : " ", part.id, part.begin,
                        part.begin + part.count);
  }
  return text;
}

std::string plan(Planner& planner) {
  std::string text;
  while (!planner.empty()) text += (text.empty() ? "" : " | ") + batch(planner);
  return text;
}

}  // namespace

TEST_CASE("batches follow the order of readiness, priority decides among ready tensors") {
  Planner planner({0, 0}, {});
  planner.add(tensor(1, 4));
  planner.add(tensor(2, 4, -1));
  planner.add(tensor(3, 4));
  planner.add(tensor(4, 4, 5));
  CHECK(plan(planner) == "4[0,4) | 1[0,4) | 3[0,4) | 2[0,4)");
}

TEST_CASE("small tensors of one kind travel together, up to the limit") {
  Planner planner({40, 0}, {});
  for (KeyId id = 1; id <= 5; ++id) planner.add(tensor(id, 4));
  CHECK(plan(planner) == "1[0,4) 2[0,4) | 3[0,4) 4[0,4) | 5[0,4)");
}

TEST_CASE("tensors that differ in dtype, op, root, device, wire or contributors are not fused") {
  Planner planner({1 << 20, 0}, {});
  planner.add(tensor(1, 1));
  planner.add(tensor(2, 1, 0, DType::f16));
  ReadyTensor other = tensor(3, 1);
  other.signature.op = ReduceOp::max;
  planner.add(other);
  other = tensor(4, 1);
  other.signature.wire = WireFormat::bf16;
  planner.add(other);
  other = tensor(5, 1);
  other.signature.device = Device::Kind::gpu;
  planner.add(other);
  other = tensor(6, 1);
  other.active_ranks = 1;
  planner.add(other);
  for (const int root : {0, 1}) {
    other = tensor(static_cast<KeyId>(7 + root), 1);
    other.signature.kind = CollectiveKind::broadcast;
    other.signature.root = root;
    planner.add(other);
  }
  planner.add(tensor(9, 1));
  CHECK(plan(planner) ==
        "1[0,1) 9[0,1) | 2[0,1) | 3[0,1) | 4[0,1) | 5[0,1) | 6[0,1) | 7[0,1) | 8[0,1)");
}

TEST_CASE("the halves of an allreduce are cut like others, but each travels alone") {
  for (const CollectiveKind kind : {CollectiveKind::reduce_scatter, CollectiveKind::allgather}) {
    Planner planner({1 << 20, 1024}, {});
    for (const KeyId id : {1U, 2U, 3U}) {
      ReadyTensor half = tensor(id, id == 3 ? 600 : 4);
      half.signature.kind = kind;
      planner.add(half);
    }
    CHECK(plan(planner) == "1[0,4) | 2[0,4) | 3[0,256) | 3[256,512) | 3[512,600)");
  }
}

TEST_CASE("a large tensor is cut into about equal parts of whole cache lines") {
  Planner planner({0, 1024}, {});
  planner.add(tensor(1, 600));
  CHECK(plan(planner) == "1[0,256) | 1[256,512) | 1[512,600)");
}

TEST_CASE("a more urgent tensor overtakes the parts that are not planned yet") {
  Planner planner({4096, 1024}, {});
  planner.add(tensor(1, 600, -3));
  CHECK(batch(planner) == "1[0,256)");
  planner.add(tensor(2, 4, -1));
  planner.add(tensor(3, 4, -4));
  CHECK(plan(planner) == "2[0,4) | 1[256,512) | 1[512,600) | 3[0,4)");
}

TEST_CASE("a tensor with parts done goes on where they ended, on the same cuts") {
  Planner planner({4096, 1024}, {});
  ReadyTensor half = tensor(1, 600);
  half.start = 256;
  planner.add(half);
  planner.add(tensor(2, 1));
  CHECK(plan(planner) == "1[256,512) | 1[512,600) | 2[0,1)");
}

TEST_CASE("tensors on a GPU are fused and cut by sizes of their own") {
  Planner planner({0, 1024}, {65'536, 8192});
  const auto on_gpu = [](KeyId id, std::int64_t count) {
    ReadyTensor ready = tensor(id, count);
    ready.signature.device = Device::Kind::gpu;
    return ready;
  };
  planner.add(on_gpu(1, 4096));
  planner.add(tensor(2, 512));
  planner.add(on_gpu(3, 100));
  planner.add(on_gpu(4, 100));
  CHECK(batch(planner) == "1[0,2048)");
  CHECK(batch(planner) == "1[2048,4096)");
  CHECK(batch(planner) == "2[0,256)");
  CHECK(batch(planner) == "2[256,512)");
  CHECK(batch(planner) == "3[0,100) 4[0,100)");
  CHECK(planner.empty());
}

TEST_CASE("a part of a tensor on a GPU counts for as many bytes as one of a tensor on the host") {
  Planner planner({0, 1024}, {0, 8192});
  ReadyTensor ready = tensor(1, 4096);
  ready.signature.device = Device::Kind::gpu;
  planner.add(ready);
  std::uint64_t bytes = 0;
  planner.next(bytes);
  CHECK(bytes == 1024);
}
