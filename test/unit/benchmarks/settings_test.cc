#include "benchmarks/allreduce/settings.h"

#include <catch2/catch.hpp>

using namespace tutti;
using bench::Operation;
using bench::Settings;

namespace {

/// Four ranks, silently. Empty: refused.
std::optional<Settings> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "allreduce_bench");
  Settings settings;
  if (bench::parse(static_cast<int>(words.size()), words.data(), 4, false, settings)) return {};
  return settings;
}

std::vector<std::size_t> counts(std::vector<const char*> words) {
  return parse(std::move(words)).value().counts(4);
}

}  // namespace

TEST_CASE("without options both implementations run from 4 bytes to 64 MiB") {
  const Settings settings = parse({}).value();
  CHECK(settings.runs("tutti"));
  CHECK(settings.runs("mpi"));
  CHECK(settings.op == Operation::allreduce);
  CHECK(settings.check);
  CHECK(settings.counts(4).front() == 1);
  CHECK(settings.counts(4).back() == 16u << 20);
}

TEST_CASE("tutti can be measured in several ways") {
  const Settings s = parse({"--impl", "tutti,timeline,irreproducible"}).value();
  CHECK(s.runs("irreproducible"));
  CHECK_FALSE(s.runs("mpi"));
}

TEST_CASE("only a store that records one is asked for a timeline") {
  CHECK(parse({"--impl", "tutti,timeline"}).value().runs("timeline"));
  CHECK_FALSE(parse({"--impl", "tutti,timeline", "--kv-store", "local"}));
}

TEST_CASE("only tutti's own tensors are put on a GPU") {
  CHECK(parse({"--impl", "tutti", "--gpu", "2"}).value().gpu == 2);
  CHECK_FALSE(parse({}).value().gpu);
  CHECK_FALSE(parse({"--gpu", "2"}));
  CHECK_FALSE(parse({"--impl", "tutti", "--shared", "--gpu", "2"}));
}

TEST_CASE("every option reaches its setting") {
  const Settings s =
      parse({"--impl",      "tutti",      "--op",        "broadcast", "--dtype",    "bf16",
             "--min-bytes", "64K",        "--max-bytes", "1M",        "--factor",   "2",
             "--in-place",  "--shared",   "--iters",     "7",         "--warmup",   "3",
             "--least",     "2",          "--seconds",   "0.5",       "--no-check", "--json",
             "rows.json",   "--kv-store", "local",       "--root",    "3",          "--wire",
             "fp16",        "--rest",     "2.5"})
          .value();
  CHECK_FALSE(s.runs("mpi"));
  CHECK(s.op == Operation::broadcast);
  CHECK(s.dtype == DType::bf16);
  CHECK(s.counts(4) == std::vector<std::size_t>{32768, 65536, 131072, 262144, 524288});
  CHECK((s.in_place && s.shared && !s.check));
  CHECK(s.iterations == 7);
  CHECK(s.warmup == 3);
  CHECK(s.least == 2);
  CHECK(s.seconds == 0.5);
  CHECK(s.rest == 2.5);
  CHECK(s.json == "rows.json");
  CHECK(s.store == "local");
  CHECK(s.root == 3);
  CHECK(s.wire == "fp16");
}

TEST_CASE("sizes are whole elements, each once, up to the largest") {
  CHECK(counts({"--min-bytes", "1", "--max-bytes", "40", "--factor", "3"}) ==
        std::vector<std::size_t>{1, 3, 9});
  CHECK(counts({"--min-bytes", "9", "--max-bytes", "9"}) == std::vector<std::size_t>{2});
  CHECK(counts({"--min-bytes", "8G", "--max-bytes", "8G", "--dtype", "f64"}) ==
        std::vector<std::size_t>{1u << 30});
}

TEST_CASE("the halves of an allreduce have as many elements on each rank, one at least") {
  for (const char* const op : {"reduce_scatter", "allgather"}) {
    CHECK(counts({"--op", op, "--max-bytes", "100", "--factor", "3"}) ==
          std::vector<std::size_t>{4, 8});
    CHECK(counts({"--op", op, "--bytes", "4,100"}) == std::vector<std::size_t>{4, 24});
    CHECK_FALSE(parse({"--op", op, "--in-place"}));
  }
  CHECK(parse({"--op", "allgather", "--dtype", "f16"}));
  CHECK_FALSE(parse({"--op", "reduce_scatter", "--dtype", "f16"}));
}

TEST_CASE("sizes that are listed take the place of the range, in their order") {
  CHECK(counts({"--bytes", "64K,4,16", "--factor", "2"}) == std::vector<std::size_t>{16384, 1, 4});
  CHECK_FALSE(parse({"--bytes", "4,3"}));
  CHECK_FALSE(parse({"--bytes", "16G,4"}));
}

TEST_CASE("settings that cannot be run are refused") {
  CHECK_FALSE(parse({"--impl", "gloo"}));
  CHECK_FALSE(parse({"--dtype", "f8"}));
  CHECK_FALSE(parse({"--factor", "1"}));
  CHECK_FALSE(parse({"--min-bytes", "8", "--max-bytes", "4"}));
  CHECK_FALSE(parse({"--dtype", "f16"}));
  CHECK_FALSE(parse({"--max-bytes", "16G"}));
  CHECK_FALSE(parse({"--root", "4", "--op", "broadcast"}));
  CHECK_FALSE(parse({"--impl", "mpi", "--shared"}));
  CHECK_FALSE(parse({"--wire", "int8"}));
  CHECK_FALSE(parse({"--unknown"}));
  CHECK_FALSE(parse({"--min-bytes", "0", "--max-bytes", "3"}));
  CHECK_FALSE(parse({"--max-bytes", "-1", "--impl", "tutti"}));
  CHECK_FALSE(parse({"--seconds", "nan"}));
  CHECK_FALSE(parse({"--iters", "-1"}));
  CHECK_FALSE(parse({"--least", "0"}));
  CHECK_FALSE(parse({"--warmup", "-1"}));
  CHECK(parse({"--warmup", "0"}));
  CHECK(parse({"--dtype", "f16", "--impl", "tutti"}));
  CHECK(parse({"--dtype", "f16", "--op", "broadcast"}));
}
