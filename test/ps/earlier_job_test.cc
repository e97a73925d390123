// Servers begin with the values that servers of an earlier job had on the disk.
#include <catch2/catch.hpp>

#include "ps/durable/state_folder.h"
#include "ps/local_job.h"
#include "ps/server/image.h"
#include "unit/folder.h"

using namespace tutti;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

ps::Contribution init(std::uint64_t sequence, const ps::PieceName& piece, const Floats& values) {
  ps::Contribution said{.sequence = sequence, .piece = piece, .kind = ps::Kind::init};
  said.shape = {static_cast<std::int64_t>(values.size() * piece.pieces)};
  said.data = std::as_bytes(std::span(values));
  return said;
}

/// Leaves the state of two servers that were killed inside the init of "w": one has its piece, and
/// the other one does not. "v" is complete.
void leave_incomplete(const std::string& folder) {
  for (const int rank : {0, 1}) {
    const ps::StateHead head{.job = 7, .rank = rank, .servers = 2, .workers = 1};
    const ps::Image image(head);
    *image.send = [](int, const ps::Answer&) {};
    const auto index = static_cast<std::uint32_t>(rank);
    image.table->receive(0, init(1, {"v", index, 2}, {1, 2}));
    if (rank == 0) image.table->receive(0, init(2, {"w", index, 2}, {3, 4}));
    const auto bytes = ps::image_bytes(head, *image.table, {&image.deliveries[0]});
    const ps::StateFiles files(ps::state_folder(folder), rank, 2);
    ps::write_state(files.disk(), files.checkpoint(1), [&] { return bytes; });
  }
}

/// Initialises both keys, and returns their values.
std::string both(KVStore& kv) {
  Floats v{5, 6, 7, 8};
  Floats w{5, 6, 7, 8};
  kv.init({"v", "w"}, {tensor(v), tensor(w)});
  kv.pull({"v", "w"}, {tensor(v), tensor(w)}).wait();
  return text_of(v) + ", " + text_of(w);
}

}  // namespace

TEST_CASE("a crash inside an init costs the next job that key alone") {
  const Folder folder;
  leave_incomplete(folder.path());
  LocalJob job({.workers = 1,
                .big_count = 2,
                .durability = {.folder = folder.path(), .when = Durability::When::each}});
  CHECK(job.run(both) == Said{"1 2 1 2, 5 6 7 8"});
  CHECK(job.ends() == Said(3, ""));
}

TEST_CASE("a crash inside an init costs other servers, too, that key alone") {
  const Folder folder;
  leave_incomplete(folder.path());
  LocalJob job(
      {.workers = 1, .servers = 3, .big_count = 2, .durability = {.restore = folder.path()}});
  CHECK(job.run(both) == Said{"1 2 1 2, 5 6 7 8"});
  CHECK(job.ends() == Said(4, ""));
}
