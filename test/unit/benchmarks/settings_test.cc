#include "benchmarks/allreduce/settings.h"

#include <catch2/catch.hpp>

using namespace tutti;
using bench::Operation;
using bench::Places;
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
  const Settings settings = parse(std::move(words)).value();
  return settings.counts(settings.ops.front(), 4);
}

}  // namespace

TEST_CASE("without options both implementations run from 4 bytes to 64 MiB") {
  const Settings settings = parse({}).value();
  CHECK(settings.runs("tutti"));
  CHECK(settings.runs("mpi"));
  CHECK(settings.ops == std::vector{Operation::allreduce});
  CHECK(settings.check);
  CHECK(settings.counts(Operation::allreduce, 4).front() == 1);
  CHECK(settings.counts(Operation::allreduce, 4).back() == 16u << 20);
}

TEST_CASE("tutti can be measured in several ways") {
  const Settings s = parse({"--impl", "tutti,timeline,irreproducible,persistent"}).value();
  CHECK(s.runs("irreproducible"));
  CHECK(s.runs("persistent"));
  CHECK_FALSE(s.runs("mpi"));
  CHECK_FALSE(parse({"--impl", "persistent", "--op", "allreduce,broadcast"}));
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
      parse({"--impl",      "tutti",     "--op",        "broadcast", "--dtype",     "bf16",
             "--min-bytes", "64K",       "--max-bytes", "1M",        "--factor",    "2",
             "--place",     "in",        "--shared",    "--iters",   "7",           "--warmup",
             "3",           "--least",   "2",           "--seconds", "0.5",         "--no-check",
             "--json",      "rows.json", "--kv-store",  "local",     "--root",      "3",
             "--wire",      "fp16",      "--rest",      "2.5",       "--csv",       "rows.csv",
             "--redop",     "min",       "--min-busbw", "1.5",       "--link-gbps", "0.94"})
          .value();
  CHECK_FALSE(s.runs("mpi"));
  CHECK(s.ops == std::vector{Operation::broadcast});
  CHECK(s.redops == std::vector{ReduceOp::min});
  CHECK(s.dtype == DType::bf16);
  CHECK(s.counts(Operation::broadcast, 4) ==
        std::vector<std::size_t>{32768, 65536, 131072, 262144, 524288});
  CHECK(s.places == Places::in);
  CHECK((s.shared && !s.check));
  CHECK(s.iterations == 7);
  CHECK(s.warmup == 3);
  CHECK(s.least == 2);
  CHECK(s.seconds == 0.5);
  CHECK(s.rest == 2.5);
  CHECK(s.json == "rows.json");
  CHECK(s.csv == "rows.csv");
  CHECK(s.min_busbw == 1.5);
  CHECK(s.link_gbps == 0.94);
  CHECK(s.store == "local");
  CHECK(s.root == 3);
  CHECK(s.wire == "fp16");
}

TEST_CASE("the short options of nccl-tests mean what they mean there") {
  const Settings s = parse({"-b", "8", "-e", "128M", "-f", "2", "-n", "20", "-w", "5", "-d",
                            "double", "-o", "max", "-r", "1"})
                         .value();
  CHECK(s.min_bytes == 8);
  CHECK(s.max_bytes == 128u << 20);
  CHECK(s.factor == 2);
  CHECK(s.iterations == 20);
  CHECK(s.warmup == 5);
  CHECK(s.dtype == DType::f64);
  CHECK(s.redops == std::vector{ReduceOp::max});
  CHECK(s.root == 1);
  CHECK(parse({"-b8", "-e4K"}).value().max_bytes == 4096);
  CHECK_FALSE(parse({"-g", "1"}));
}

TEST_CASE("one run measures all operations, reductions and places that are asked for") {
  const Settings s =
      parse({"--impl", "tutti", "--op", "all", "-o", "all", "--place", "both"}).value();
  CHECK(s.ops.size() == 6);
  CHECK(s.redops.size() == 4);
  CHECK(s.cases(Operation::allreduce).size() == 8);
  CHECK(s.cases(Operation::reduce_scatter).size() == 8);
  CHECK(s.cases(Operation::allgather).size() == 2);
  CHECK(s.cases(Operation::all_to_all).size() == 2);
  CHECK(s.cases(Operation::broadcast).size() == 1);
  CHECK(s.cases(Operation::broadcast)[0].in_place);
  CHECK(s.cases(Operation::sendrecv).size() == 1);
  CHECK_FALSE(s.cases(Operation::sendrecv)[0].in_place);
  const Settings twice = parse({"--op", "allgather,allreduce,allgather", "-o", "min,max"}).value();
  CHECK(twice.ops == std::vector{Operation::allgather, Operation::allreduce});
  CHECK(twice.cases(Operation::allreduce)[1].redop == ReduceOp::max);
  CHECK_FALSE(twice.cases(Operation::allreduce)[1].in_place);
}

TEST_CASE("sizes are whole elements, each once, up to the largest") {
  CHECK(counts({"--min-bytes", "1", "--max-bytes", "40", "--factor", "3"}) ==
        std::vector<std::size_t>{1, 3, 9});
  CHECK(counts({"--min-bytes", "9", "--max-bytes", "9"}) == std::vector<std::size_t>{2});
  CHECK(counts({"--min-bytes", "8G", "--max-bytes", "8G", "--dtype", "f64"}) ==
        std::vector<std::size_t>{1u << 30});
}

TEST_CASE("an operation with shares has as many elements for each rank, one at least") {
  for (const char* const op : {"reduce_scatter", "allgather", "all_to_all"}) {
    CHECK(counts({"--op", op, "--max-bytes", "100", "--factor", "3"}) ==
          std::vector<std::size_t>{4, 8});
    CHECK(counts({"--op", op, "--bytes", "4,100"}) == std::vector<std::size_t>{4, 24});
    CHECK(parse({"--op", op, "--place", "in"}));
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
  CHECK_FALSE(parse({"--op", "allreduce,nothing"}));
  CHECK_FALSE(parse({"-o", "average"}));
  CHECK(parse({"-o", "average", "--impl", "tutti"}));
  CHECK(parse({"-o", "average", "--op", "allgather"}));
  CHECK_FALSE(parse({"--op", "sendrecv", "--impl", "tutti", "--gpu", "0"}));
  CHECK_FALSE(parse({"--min-busbw", "-1"}));
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
