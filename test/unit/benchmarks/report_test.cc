#include "benchmarks/allreduce/report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tutti/version.h"

using namespace tutti::bench;

namespace {

struct Fixture {
  Settings settings;
  Setup setup{settings, 4, 2, "ranks 0-1 on a, 2-3 on b", {"MPI: none"}};
  // 8000 bytes.
  std::vector<Row> rows{{"tutti", "1.2", false, 2000, 9, {1, 2, 3, 4, 5}, 0},
                        {"tutti", "1.2", true, 2000, 9, {1, 1, 1, 1, 1}, 7},
                        {"mpi", "3.4", false, 2000, 9, {1, 5, 9, 10, 6}, 0}};
};

}  // namespace

TEST_CASE("percentiles are times that were measured") {
  std::vector<double> times(101);
  std::iota(times.rbegin(), times.rend(), 0.0);
  const Times t = summarise(times);
  CHECK(t.min == 0);
  CHECK(t.p50 == 50);
  CHECK(t.p99 == 99);
  CHECK(t.max == 100);
  CHECK(t.avg == Approx(50));
  CHECK(summarise({7}).p99 == 7);
}

TEST_CASE_METHOD(
    Fixture,
    "an allreduce loads an ideal ring's links 2(n-1)/n times, its halves half as often, a "
    "broadcast once") {
  CHECK(bandwidth(rows[0], settings, 4).algorithm == Approx(4.0));
  CHECK(bandwidth(rows[0], settings, 4).bus == Approx(6.0));
  settings.op = Operation::broadcast;
  CHECK(bandwidth(rows[0], settings, 4).bus == Approx(4.0));
  settings.op = Operation::reduce_scatter;
  CHECK(bandwidth(rows[0], settings, 4).bus == Approx(3.0));
  settings.op = Operation::allgather;
  CHECK(bandwidth(rows[0], settings, 4).bus == Approx(3.0));
}

TEST_CASE_METHOD(Fixture,
                 "the table has a line a row, with its label and MPI's time over its own") {
  const std::string text = lines(rows, setup);
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  CHECK_THAT(
      text,
      Catch::Matches(
          R"( +8000 +2000 +f32 +sum  tutti  +9 +2\.0 +1\.0 +3\.0 +4\.000 +6\.000 +0 +2\.50\n[^]*)"));
  CHECK_THAT(text, Catch::Contains("tutti shared"));
  CHECK_THAT(text, Catch::EndsWith(" 1.00\n"));
  rows.pop_back();
  CHECK_THAT(lines(rows, setup), Catch::EndsWith(" -\n"));
}

TEST_CASE_METHOD(Fixture,
                 "ways of tutti are held against tutti as it comes, unless MPI takes part") {
  settings.impls = {"tutti", "timeline"};
  rows[2].impl = "timeline";
  CHECK_THAT(lines(rows, setup), Catch::EndsWith(" 0.40\n"));
  CHECK_THAT(head(setup), Catch::Contains("ratio is tutti's time over this one"));
  CHECK(nlohmann::json::parse(json(rows, setup))[2]["impl"] == "timeline");
  rows[2].impl = "irreproducible";
  settings.impls = {"tutti", "irreproducible"};
  CHECK_THAT(lines(rows, setup), Catch::EndsWith(" 0.40\n"));
  settings.impls = {"tutti", "timeline", "mpi"};
  CHECK_THAT(lines(rows, setup), Catch::EndsWith(" -\n"));
  CHECK_THAT(head(setup), Catch::Contains("ratio is MPI's time over this one"));
}

TEST_CASE_METHOD(Fixture, "a run without checks shows no count of wrong elements") {
  settings.check = false;
  CHECK_THAT(lines({rows[0]}, setup), Catch::EndsWith("      -      -\n"));
  CHECK(nlohmann::json::parse(json(rows, setup))[0]["wrong"].is_null());
}

TEST_CASE_METHOD(Fixture, "the head says versions, ranks, hosts and mapping") {
  const std::string text = head(setup);
  CHECK_THAT(text, Catch::StartsWith("# allreduce with tutti ") &&
                       Catch::Contains("4 ranks on 2 hosts: ranks 0-1 on a, 2-3 on b\n") &&
                       Catch::Contains(std::string("# build type: ") + tutti::build_type()) &&
                       Catch::Contains("\n# MPI: none\n"));
}

TEST_CASE_METHOD(Fixture, "the JSON is an array with one object a row, each on its own line") {
  settings.wire = "fp16";
  const std::string text = json(rows, setup);
  CHECK(std::count(text.begin(), text.end(), '\n') == 5);
  const nlohmann::json parsed = nlohmann::json::parse(text);
  REQUIRE(parsed.size() == 3);
  const nlohmann::json expected{
      {"impl", "tutti"},
      {"version", "1.2"},
      {"build_type", tutti::build_type()},
      {"op", "allreduce"},
      {"dtype", "f32"},
      {"ranks", 4},
      {"hosts", 2},
      {"bytes", 8000},
      {"shared", true},
      {"device", "cpu"},
      {"wire", "fp16"},
      {"in_place", false},
      {"iters", 9},
      {"time_us", {{"min", 1.0}, {"p50", 1.0}, {"p99", 1.0}, {"max", 1.0}, {"avg", 1.0}}},
      {"algbw_GBps", 8.0},
      {"busbw_GBps", 12.0},
      {"wrong", 7}};
  CHECK(parsed[1] == expected);
  CHECK(parsed[2].at("impl").get<std::string>() == "mpi");
  CHECK(parsed[2].at("wire").get<std::string>() == "none");
}

TEST_CASE_METHOD(Fixture, "head and JSON say on which GPU tensors are") {
  settings.gpu = 3;
  CHECK_THAT(head(setup), Catch::Contains("on GPU 3, "));
  CHECK(nlohmann::json::parse(json(rows, setup))[0].at("device") == "gpu(3)");
}

TEST_CASE("ranks are listed by host, and hosts counted once") {
  const std::vector<std::string> hosts{"a", "a", "b", "a"};
  CHECK(describe_mapping(hosts) == "ranks 0-1 on a, 2 on b, 3 on a");
  CHECK(count_hosts(hosts) == 2);
}
