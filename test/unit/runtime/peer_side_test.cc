#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>

#include "base/pages.h"
#include "runtime/peer_side.h"

using namespace tutti;
using namespace tutti::runtime;

namespace {

/// A memory file of two ranks that ends behind rank 0's frames for rank 1, and does not grow.
base::Fd scarce_file() {
  base::Fd file(::memfd_create("scarce", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::size_t rings =
      base::whole_pages(p2p::PairMemory::frame_ring_bytes + p2p::PairMemory::data_ring_bytes);
  const std::size_t bytes =
      p2p::PairMemory::head_bytes(2) + rings + p2p::PairMemory::frame_ring_bytes;
  REQUIRE(::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
  REQUIRE(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW) == 0);
  return file;
}

/// Replaces the scarce file by one of its whole size.
std::shared_ptr<base::Mapping> map_whole(const base::Fd&, std::size_t bytes) {
  return base::map_file(base::create_memory_file("whole", bytes), bytes);
}

std::shared_ptr<PeerCall> call(bool sends, std::vector<float>& data) {
  const Tensor tensor(data.data(), {static_cast<std::int64_t>(data.size())}, DType::f32);
  return std::make_shared<PeerCall>(sends, tensor, 1, 0, nullptr, std::weak_ptr<base::Driver>());
}

}  // namespace

TEST_CASE("a send for whose elements there is no memory is refused, and other calls go on") {
  const auto topology = topology::make_topology(0, std::vector<int>{0, 0});
  std::array<base::Doorbell, 2> bells;
  PeerSide side(topology,
                {.file = scarce_file(), .map = map_whole, .doorbells = {&bells[0], &bells[1]}}, {},
                std::chrono::seconds(10), [](int) { return false; });
  std::vector<float> data(10);
  const auto receive = call(false, data);
  const auto send = call(true, data);
  side.submit({}, receive);
  side.submit({}, send);
  const std::vector<PeerSide::Ended> ended = side.take_ended();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].call == send);
  REQUIRE(ended[0].error);
  CHECK(ended[0].error->code() == ErrorCode::internal);
  CHECK(side.in_flight() == std::vector<std::string>{"recv from rank 1 with tag 0"});
  CHECK(side.drop_all() == std::vector<std::shared_ptr<PeerCall>>{receive});
}
