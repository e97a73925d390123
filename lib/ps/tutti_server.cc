// The scheduler or a server of a parameter-server job; the environment says which.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "tutti/error.h"
#include "tutti/server.h"
#include "tutti/version.h"

namespace {

constexpr const char* help =
    "tutti-server: the scheduler or a server of a parameter-server job, until the job is over.\n"
    "scripts/launch.py --mode ps starts it. By hand, with the same environment for all processes:\n"
    "\n"
    "  DMLC_ROLE           scheduler or server\n"
    "  DMLC_PS_ROOT_URI    host of the scheduler\n"
    "  DMLC_PS_ROOT_PORT   port of the scheduler\n"
    "  DMLC_NUM_WORKER     how many workers the job has\n"
    "  DMLC_NUM_SERVER     how many servers the job has\n"
    "  TUTTI_JOB_KEY       the job's secret, 64 digits 0-9a-f; without it the job stays on this "
    "machine\n"
    "  DMLC_INTERFACE      the network to use (default: that which leads to the scheduler)\n"
    "  DMLC_NODE_HOST      the address at which a server listens (default: as above)\n"
    "  DMLC_RANK           the rank that a server would like (default: any)\n"
    "  MXNET_KVSTORE_BIGARRAY_BOUND  at the scheduler: values of so many elements are split "
    "(default: 1000000)\n"
    "\n"
    "Workers are programs that create a store such as dist_sync.\n";

int run(std::string_view option) {
  if (option == "--help" || option == "-h") {
    fmt::print("{}", help);
    return 0;
  }
  if (option == "--version") {
    fmt::print("tutti {}\n", tutti::version());
    return 0;
  }
  if (!option.empty()) {
    fmt::print(stderr, "tutti-server: unknown option {}; see --help\n", option);
    return 2;
  }
  return tutti::run_server(tutti::Options::from_env()) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "");
  } catch (const tutti::Error& error) {
    fmt::print(stderr, "tutti-server: {}: {}\n", tutti::name(error.code()), error.what());
    return error.code() == tutti::ErrorCode::invalid_argument ? 2 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-server: {}\n", error.what());
    return 1;
  }
}
