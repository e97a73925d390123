#include "benchmarks/allreduce/report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <numeric>

#include "benchmarks/allreduce/bound.h"
#include "tutti/version.h"

using namespace tutti::bench;

namespace {

struct Fixture {
  Settings settings;
  Setup setup{settings, 4, {0, 0, 1, 1}, "ranks 0-1 on a, 2-3 on b", {"MPI: none"}, "day: words"};
  // 8000 bytes.
  std::vector<Row> rows{{"tutti", "1.2", false, {}, 2000, 9, {1, 2, 3, 4, 5}, 0},
                        {"tutti", "1.2", true, {}, 2000, 9, {1, 1, 1, 1, 1}, 7},
                        {"mpi", "3.4", false, {}, 2000, 9, {1, 5, 9, 10, 6}, 0}};

  double bus(Operation op) {
    rows[0].how.op = op;
    return bandwidth(rows[0], setup).bus;
  }
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
  CHECK(bandwidth(rows[0], setup).algorithm == Approx(4.0));
  CHECK(bus(Operation::allreduce) == Approx(6.0));
  CHECK(bus(Operation::broadcast) == Approx(4.0));
  CHECK(bus(Operation::reduce_scatter) == Approx(3.0));
  CHECK(bus(Operation::allgather) == Approx(3.0));
  CHECK(bus(Operation::all_to_all) == Approx(3.0));
  CHECK(bus(Operation::sendrecv) == Approx(4.0));
}

TEST_CASE_METHOD(Fixture,
                 "on one host the bound is the rate at which all ranks copy their buffers") {
  rows[0].copy_rate = 16e9;  // 64 KB take 4 us
  CHECK(bandwidth(rows[0], setup).bound == 0);
  setup.host_of_rank = {0, 0, 0, 0};
  CHECK(bandwidth(rows[0], setup).bound == Approx(8000 * 1.5 / 4e-6 / 1e9));
  rows[0].copy_rate = 0;
  CHECK(bandwidth(rows[0], setup).bound == 0);
}

TEST_CASE_METHOD(Fixture, "between hosts the bound is the link's, if it is named") {
  settings.link_gbps = 0.8;  // 8000 bytes each way take 80 us
  CHECK(bandwidth(rows[0], setup).bound == Approx(8000 * 1.5 / 80e-6 / 1e9));
  settings.wire = "bf16";
  CHECK(bandwidth(rows[0], setup).bound == Approx(8000 * 1.5 / 40e-6 / 1e9));
  CHECK(bandwidth(rows[2], setup).bound == Approx(8000 * 1.5 / 80e-6 / 1e9));
  CHECK_THAT(head(setup), Catch::Contains("# bound: the busbw of links of 0.8 Gbit/s"));
  settings.link_gbps = 0;
  CHECK_THAT(head(setup), Catch::Contains("# bound: not known; --link-gbps"));
}

TEST_CASE("a machine's memory moves each input and each result once") {
  const auto bytes = [](Operation op, bool in_place) {
    return bytes_in_memory({.op = op, .in_place = in_place}, 100, 4);
  };
  CHECK(bytes(Operation::allreduce, false) == 800);
  CHECK(bytes(Operation::allreduce, true) == 800);
  CHECK(bytes(Operation::broadcast, true) == 400);
  CHECK(bytes(Operation::reduce_scatter, false) == 500);
  CHECK(bytes(Operation::allgather, false) == 500);
  CHECK(bytes(Operation::allgather, true) == 400);
  CHECK(bytes(Operation::all_to_all, false) == 800);
  CHECK(bytes(Operation::all_to_all, true) == 600);
  CHECK(bytes(Operation::sendrecv, false) == 800);
}

TEST_CASE("the busiest host's link carries what the other hosts lack") {
  const std::vector<int> even{0, 0, 1, 1};
  const std::vector<int> uneven{0, 0, 0, 1};
  CHECK(bytes_on_link(Operation::allreduce, 100, {0, 0, 0, 0}) == 0);
  CHECK(bytes_on_link(Operation::allreduce, 100, even) == 100);
  CHECK(bytes_on_link(Operation::broadcast, 100, even) == 100);
  CHECK(bytes_on_link(Operation::reduce_scatter, 100, even) == 50);
  CHECK(bytes_on_link(Operation::allgather, 100, uneven) == 75);
  CHECK(bytes_on_link(Operation::all_to_all, 100, even) == 100);
  CHECK(bytes_on_link(Operation::all_to_all, 100, uneven) == 75);
  CHECK(bytes_on_link(Operation::sendrecv, 100, even) == 100);
  CHECK(bytes_on_link(Operation::sendrecv, 100, {0, 1, 0, 1}) == 200);
}

TEST_CASE_METHOD(Fixture,
                 "the table has a line a row, with its label and MPI's time over its own") {
  const std::string text = lines(rows, setup);
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  CHECK_THAT(
      text,
      Catch::Matches(
          R"( +8000 +2000 +f32 +sum +out  tutti  +9 +2\.0 +1\.0 +3\.0 +4\.000 +6\.000 +- +0 +2\.50\n[^]*)"));
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

TEST_CASE_METHOD(Fixture, "the head says versions, ranks, hosts, mapping, date and command") {
  const std::string text = head(setup);
  CHECK_THAT(text, Catch::StartsWith("# allreduce_bench of tutti ") &&
                       Catch::Contains("\n# day: words\n") &&
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
      {"redop", "sum"},
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
      {"bound_GBps", nullptr},
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

TEST_CASE_METHOD(Fixture, "the CSV has a line of names, and the JSON's fields") {
  rows.resize(1);
  rows[0].version = "1, \"2\"";
  rows[0].how = {.op = Operation::allgather, .in_place = true};
  settings.check = false;
  CHECK(csv(rows, setup) ==
        "impl,version,build_type,op,redop,dtype,ranks,hosts,bytes,shared,device,wire,in_place,"
        "iters,time_us_min,time_us_p50,time_us_p99,time_us_max,time_us_avg,algbw_GBps,busbw_GBps,"
        "bound_GBps,wrong\n"
        "tutti,\"1, \"\"2\"\"\"," +
            std::string(tutti::build_type()) +
            ",allgather,none,f32,4,2,8000,false,cpu,none,true,9,1.0,2.0,3.0,4.0,5.0,4.0,3.0,,\n");
}

TEST_CASE_METHOD(Fixture, "the last lines say each average, and a run below the gate fails") {
  rows[1].wrong = 0;
  settings.min_busbw = 6;
  CHECK(judge(rows, setup).passed);  // MPI has 2.4
  CHECK(judge(rows, setup).text ==
        "# average busbw of mpi: 2.400 GB/s\n# average busbw of tutti: 6.000 GB/s\n"
        "# average busbw of tutti shared: 12.000 GB/s\n");
  settings.min_busbw = 6.1;
  CHECK_FALSE(judge(rows, setup).passed);
  CHECK_THAT(judge(rows, setup).text,
             Catch::Contains("tutti: 6.000 GB/s, less than --min-busbw 6.1\n"));
  settings.impls = {"mpi"};
  CHECK_FALSE(judge({rows[2]}, setup).passed);
  settings.min_busbw = 0;
  CHECK(judge(rows, setup).passed);
  rows[1].wrong = 7;
  CHECK_FALSE(judge(rows, setup).passed);
  CHECK_THAT(judge(rows, setup).text, Catch::EndsWith("# 7 elements are wrong\n"));
}

TEST_CASE("ranks are listed by host, and hosts of one name are two") {
  const std::vector<std::string> hosts{"a", "a", "b", "a"};
  CHECK(describe_mapping(hosts) == "ranks 0-1 on a, 2 on b, 3 on a");
  CHECK(number_hosts({"boot 1", "boot 1", "boot 2", "boot 1"}) == std::vector{0, 0, 1, 0});
}
