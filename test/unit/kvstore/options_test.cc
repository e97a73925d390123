#include "tutti/options.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "../errors.h"
#include "kvstore/environment.h"

using namespace tutti;
using namespace std::chrono_literals;

static std::string refusal(const std::string& name, const std::string& value) {
  return text_of(ErrorCode::invalid_argument, [&] { options_from({{name, value}}); });
}

TEST_CASE("an environment without tutti's variables leaves the defaults") {
  const Options options = options_from({{"HOME", "/root"}, {"DMLC_ROLE", "worker"}});
  CHECK(options.interface.empty());
  CHECK(options.reproducible);
  CHECK(options.replay);
  CHECK(options.stall_report_after == 30s);
  CHECK(options.key_timeout == 30min);
  CHECK_FALSE(options.fusion_bytes);
}

TEST_CASE("each variable sets its field") {
  const Options options = options_from({{"DMLC_INTERFACE", "eth0"},
                                        {"TUTTI_ENCRYPT", "1"},
                                        {"TUTTI_USER_MAKES_NO_MPI_CALLS", "1"},
                                        {"TUTTI_REPRODUCIBLE", "false"},
                                        {"TUTTI_STALENESS", "3"},
                                        {"TUTTI_GPU", "1"},
                                        {"TUTTI_STALL_SECONDS", "0.25"},
                                        {"TUTTI_TIMEOUT_SECONDS", "90"},
                                        {"TUTTI_HEARTBEAT_SECONDS", "3"},
                                        {"TUTTI_CREATE_SECONDS", "1e2"},
                                        {"TUTTI_LOG", "debug"},
                                        {"TUTTI_TIMELINE", "out/trace.json"},
                                        {"TUTTI_REPLAY", "false"},
                                        {"TUTTI_FUSION_BYTES", "0"},
                                        {"TUTTI_PART_BYTES", "8M"},
                                        {"TUTTI_SLICE_BYTES", "64K"}});
  CHECK(options.interface == "eth0");
  CHECK(options.encrypt);
  CHECK(options.user_makes_no_mpi_calls);
  CHECK_FALSE(options.reproducible);
  CHECK(options.staleness == 3);
  CHECK_FALSE(options_from({{"TUTTI_STALENESS", "off"}}).staleness);
  CHECK(options.gpu == 1);
  CHECK_FALSE(options_from({{"TUTTI_GPU", "auto"}}).gpu);
  CHECK(options.stall_report_after == 250ms);
  CHECK(options.key_timeout == 90s);
  CHECK(options.heartbeat_timeout == 3s);
  CHECK(options.create_timeout == 100s);
  CHECK(options.log_level == "debug");
  CHECK(options.timeline == "out/trace.json");
  CHECK_FALSE(options.replay);
  CHECK(options.fusion_bytes == 0);
  CHECK(options.part_bytes == 8u << 20);
  CHECK_FALSE(options_from({{"TUTTI_PART_BYTES", "auto"}}).part_bytes);
  CHECK(options.slice_bytes == 64u << 10);
}

TEST_CASE("a variable also accepts the value that it shows") {
  Options odd;
  odd.stall_report_after = 1500ms;
  odd.fusion_bytes = 12345;
  odd.part_bytes = std::size_t{3} << 40;
  odd.reproducible = false;
  Environment environment;
  for (const OptionVariable& variable : option_variables()) {
    environment.emplace_back(variable.name, variable.show(odd));
  }
  const Options again = options_from(environment);
  CHECK(again.stall_report_after == 1500ms);
  CHECK(again.fusion_bytes == 12345);
  CHECK(again.part_bytes == std::size_t{3} << 40);
  CHECK_FALSE(again.reproducible);
  CHECK(again.key_timeout == odd.key_timeout);
}

TEST_CASE("a variable is suggested by its option's name, too, and without its unit") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"TUTTI_TIMEOUTT", "TUTTI_TIMEOUT_SECONDS"},
      {"TUTTI_TIMEOUT", "TUTTI_TIMEOUT_SECONDS"},
      {"TUTTI_KEY_TIMEOUT", "TUTTI_TIMEOUT_SECONDS"},
      {"TUTTI_CREATE_TIMEOUT", "TUTTI_CREATE_SECONDS"},
      {"TUTTI_STALL_REPORT_AFTER", "TUTTI_STALL_SECONDS"},
      {"TUTTI_LOG_LEVEL", "TUTTI_LOG"},
      {"TUTTI_LOGLEVEL", "TUTTI_LOG"},
      {"TUTTI_FUSION", "TUTTI_FUSION_BYTES"},
      {"TUTTI_INTERFACE", "DMLC_INTERFACE"}};
  for (const auto& [written, meant] : cases) {
    CHECK_THAT(refusal(written, "1"),
               Catch::Contains(written + " is not known, did you mean '" + meant + "'?"));
  }
}

TEST_CASE("an unknown variable is refused, with the nearest known one and all of them") {
  CHECK_THAT(refusal("TUTTI_FUSON_BYTES", "1"),
             Catch::StartsWith("environment variable TUTTI_FUSON_BYTES is not known, did you mean "
                               "'TUTTI_FUSION_BYTES'? (known: TUTTI_AUTOLOAD, "));
  CHECK_THAT(refusal("TUTTI_TIMLINE", "trace.json"),
             Catch::Contains("TUTTI_TIMLINE is not known, did you mean 'TUTTI_TIMELINE'?"));
  CHECK_THAT(refusal("TUTTI_", ""), Catch::Contains("TUTTI_ is not known"));
  for (const char* name : {"TUTTI_X\ny", "TUTTI_ABC", "TUTTI_X"}) {
    CHECK_THAT(refusal(name, "1"), !Catch::Contains("did you mean"));
  }
}

TEST_CASE(
    "a misspelt variable of a parameter-server job is refused, one of other software is not") {
  CHECK_THAT(refusal("DMLC_NUM_WORKERS", "2"),
             Catch::Contains("DMLC_NUM_WORKERS is not known, did you mean 'DMLC_NUM_WORKER'?"));
  CHECK_THAT(refusal("PS_RESENT", "1"),
             Catch::Contains("PS_RESENT is not known, did you mean 'PS_RESEND'?") &&
                 Catch::Contains("PS_HEARTBEAT_TIMEOUT"));
  options_from({{"DMLC_INTERFACE", "eth0"}, {"PS_DROP_MSG", "10"}, {"DMLC_NUM_SERVER", "1"}});
  options_from({{"PS_FORMAT", "pid"}, {"DMLC_TRACKER_URI", "10.0.0.1"}, {"DMLC_TASK_ID", "1"}});
}

TEST_CASE("the launcher's variables are known") {
  options_from({{"TUTTI_MODE", "mpi"}, {"TUTTI_AUTOLOAD", "mxnet"}});
  CHECK(launch_mode({{"TUTTI_MODE", "mpi"}}) == LaunchMode::mpi);
  CHECK(launch_mode({{"TUTTI_MODE", "ps"}}) == LaunchMode::ps);
  CHECK(launch_mode({{"HOME", "mpi"}}) == LaunchMode::none);
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [] {
                       launch_mode({{"TUTTI_MODE", "MPI"}});
                     }),
             Catch::Contains("TUTTI_MODE='MPI' is not usable; it takes ps or mpi"));
}

TEST_CASE("an unusable value is refused with the variable, the value and what it takes") {
  CHECK(refusal("TUTTI_REPLAY", "yes") ==
        "environment variable TUTTI_REPLAY='yes' is not usable; it takes 0, 1, true or false");
  CHECK_THAT(refusal("TUTTI_LOG", "loud"), Catch::Contains("it takes off, critical, error"));
  for (const char* value : {"\x1b[2J", "eth0\n", "eth0 eth1", "/dev/net/tun", "\xff"}) {
    CHECK_THAT(refusal("DMLC_INTERFACE", value),
               Catch::Contains("is not usable; it takes the name of a network interface") &&
                   !Catch::Contains("\x1b") && !Catch::Contains("\n"));
  }
  for (const char* value : {"", "-1", "1 ", " 1", "1.5", "M", "4X", "1KK", "0x10",
                            "18446744073709551616", "16777216T", "9T"}) {
    CHECK_THAT(refusal("TUTTI_PART_BYTES", value),
               Catch::Contains("TUTTI_PART_BYTES='" + std::string(value) +
                               "' is not usable; it takes auto, or a number of bytes"));
  }
  for (const char* value : {"", "0", "-3", "30s", "nan", "inf", "1e300", "0.0001", "+5"}) {
    CHECK_THAT(refusal("TUTTI_STALL_SECONDS", value),
               Catch::Contains("TUTTI_STALL_SECONDS='" + std::string(value) +
                               "' is not usable; it takes seconds"));
  }
}

TEST_CASE("an option that is refused a value keeps the one that it has") {
  Options options;
  options.set("ranks", "0,2");
  for (const auto& [field, good, bad] :
       {std::array{"ranks", "1,3", "1,1"}, std::array{"log_level", "error", "loud"},
        std::array{"interface", "eth0", "eth0 eth1"}, std::array{"part_bytes", "1M", "lots"},
        std::array{"replay", "1", "yes"}, std::array{"key_timeout", "3", "0"}}) {
    options.set(field, good);
    const auto refuse = [&, field = field, bad = bad] { options.set(field, bad); };
    CHECK_THAT(text_of(ErrorCode::invalid_argument, refuse), Catch::Contains("not usable"));
    for (const OptionVariable& variable : option_variables()) {
      if (variable.field == field) CHECK(variable.show(options) == good);
    }
  }
}

TEST_CASE("a field out of its range is refused with its variable, the value and what it takes") {
  const auto refused = [](auto change) {
    Options options;
    change(options);
    return text_of(ErrorCode::invalid_argument, [&] { check(options); });
  };
  check(Options());
  CHECK(refused([](Options& o) { o.stall_report_after = 0ms; }) ==
        "Options::stall_report_after (TUTTI_STALL_SECONDS) is 0; it takes seconds as a decimal "
        "number from 0.001 to a century, such as 30 or 0.5");
  CHECK_THAT(refused([](Options& o) { o.key_timeout = std::chrono::milliseconds::max(); }),
             Catch::Contains("(TUTTI_TIMEOUT_SECONDS) is 9223372036854776"));
  CHECK_THAT(refused([](Options& o) { o.create_timeout = -1ms; }),
             Catch::Contains("(TUTTI_CREATE_SECONDS) is -0.001"));
  CHECK_THAT(refused([](Options& o) { o.slice_bytes = std::size_t{4194304} << 40; }),
             Catch::Contains("(TUTTI_SLICE_BYTES) is 4194304T; it takes a number of bytes"));
  CHECK_THAT(refused([](Options& o) { o.log_level = "loud"; }), Catch::Contains("TUTTI_LOG"));
  CHECK_THAT(refused([](Options& o) { o.staleness = -1; }),
             Catch::Contains("(TUTTI_STALENESS) is -1; it takes off, or a whole number"));
  CHECK_THAT(refused([](Options& o) { o.gpu = -1; }),
             Catch::Contains("(TUTTI_GPU) is -1; it takes auto, or a GPU's number from 0 on"));
  CHECK_THAT(refused([](Options& o) { o.interface = "\x1b[2J"; }),
             Catch::Contains("(DMLC_INTERFACE) is \\x1b[2J; it takes"));
}

TEST_CASE("from_env reads the process's own environment") {
  ::setenv("TUTTI_PART_BYTES", "1M", 1);
  const Options options = Options::from_env();
  ::unsetenv("TUTTI_PART_BYTES");
  CHECK(options.part_bytes == 1u << 20);
}
