#include "ps/worker/outbox.h"

#include <catch2/catch.hpp>
#include <string>

using namespace tutti;
using namespace tutti::ps;

namespace {

void add(Outbox& outbox, const std::string& what, const Key& key, int priority,
         std::uint32_t pieces = 1) {
  const auto call = std::make_shared<InFlightCall>();
  call->what = what;
  call->key = key;
  call->priority = priority;
  for (std::uint32_t piece = 0; piece < pieces; ++piece) outbox.add({call, piece, pieces});
}

std::string next(Outbox& outbox) {
  const Outbox::Entry entry = outbox.take();
  return entry.call->what + std::to_string(entry.piece);
}

std::string all(Outbox& outbox) {
  std::string order;
  while (!outbox.empty()) order += next(outbox) + " ";
  return order;
}

}  // namespace

TEST_CASE("the most urgent piece leaves first, and equally urgent ones in the order of the calls") {
  Outbox outbox;
  add(outbox, "a", 1, 0);
  add(outbox, "b", 2, 5);
  add(outbox, "c", 3, 0);
  add(outbox, "d", 4, -5);
  add(outbox, "e", 5, 5);
  CHECK(all(outbox) == "b0 e0 a0 c0 d0 ");
}

TEST_CASE("a small urgent tensor passes the pieces of a large one that are still to be sent") {
  Outbox outbox;
  add(outbox, "large", 1, 0, 4);
  CHECK(next(outbox) == "large0");
  add(outbox, "small", 2, 1);
  CHECK(outbox.size() == 4);
  CHECK(all(outbox) == "small0 large1 large2 large3 ");
}

TEST_CASE("calls for one key keep their order, whatever their priorities") {
  Outbox outbox;
  add(outbox, "push", 1, 0);
  add(outbox, "other", 2, 3);
  add(outbox, "pull", 1, 9);
  CHECK(all(outbox) == "other0 push0 pull0 ");
  // The key is free again.
  add(outbox, "other", 2, 3);
  add(outbox, "pull", 1, 9);
  CHECK(all(outbox) == "pull0 other0 ");
}
