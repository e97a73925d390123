// The scheduler or a server of a parameter-server job. The environment or options say which.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/names.h"
#include "base/printable.h"
#include "tutti/error.h"
#include "tutti/server.h"
#include "tutti/version.h"

namespace {

constexpr const char* help =
    "tutti-server is the scheduler or a server of a parameter-server job, until the job is over.\n"
    "scripts/launch.py --mode ps starts it. To start it by hand, give all processes the same\n"
    "variables. Where an option is named, it may take the place of the variable:\n"
    "\n"
    "  DMLC_ROLE           --role ROLE: scheduler or server\n"
    "  DMLC_PS_ROOT_URI    --root-uri HOST: the host of the scheduler\n"
    "  DMLC_PS_ROOT_PORT   --root-port PORT: the port of the scheduler\n"
    "  DMLC_NUM_WORKER     --num-worker N: how many workers the job has\n"
    "  DMLC_NUM_SERVER     --num-server N: how many servers the job has\n"
    "  TUTTI_JOB_KEY       the job's secret, 64 digits 0-9a-f; without it the job stays on this\n"
    "                      machine, and only processes of the same user can join it\n"
    "  DMLC_INTERFACE      the network to use (default: the one that leads to the scheduler)\n"
    "  DMLC_NODE_HOST      the address at which a server listens (default: as above)\n"
    "  DMLC_RANK           --rank RANK: the rank that a server asks for (default: any)\n"
    "  TUTTI_LISTEN_FD     --listen-fd N: a socket that already listens, which the scheduler "
    "takes\n"
    "                      over from the process that starts it (default: the scheduler listens\n"
    "                      at the root by itself)\n"
    "  MXNET_KVSTORE_BIGARRAY_BOUND  at the scheduler: values of at least so many elements go to\n"
    "                      all servers, smaller ones to one (default: 1000000)\n"
    "\n"
    "Workers are programs that create a store such as dist_sync.\n"
    "\n"
    "A server may keep its state:\n"
    "\n"
    "  --state DIR           keep values, optimizer states and rounds in DIR; needs a rank\n"
    "  --durable each        workers learn of an applied push when it is on the disk; if the\n"
    "                        server is started again, it goes on, and workers wait for it\n"
    "  --durable seconds N   as with each, but a push may reach the disk N seconds later; if the\n"
    "                        whole machine goes down, the pushes of that time are lost\n"
    "  --durable off         write checkpoints now and then, for another job (default)\n"
    "  --restore DIR         begin with the state of an earlier job with any number of servers,\n"
    "                        if the folder of --state has no state yet\n"
    "  --journal-bytes N     write a checkpoint when the journal has more bytes than this, and\n"
    "                        than two checkpoints (default: 67108864)\n"
    "\n"
    "DIR must be your own, such as $HOME/states/job: a server refuses a folder that other users "
    "may\n"
    "change, and makes a folder that does not exist.\n";

struct UsageError {
  std::string text;
};

std::uint64_t number_in(std::string_view text, std::string_view option, std::uint64_t most) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && number >= 1 && number <= most) return number;
  throw UsageError{fmt::format("{} {}: it takes a whole number from 1 to {}", option, text, most)};
}

std::chrono::seconds seconds_in(std::string_view text) {
  constexpr std::uint64_t day = 86'400;
  return std::chrono::seconds(number_in(text, "--durable seconds", day));
}

void set_durable(tutti::Durability& durability, std::string_view text) {
  constexpr std::string_view seconds = "seconds=";
  using When = tutti::Durability::When;
  if (text == "each" || text == "off") {
    durability.when = text == "each" ? When::each : When::off;
  } else if (text.starts_with(seconds)) {
    durability.when = When::seconds;
    durability.interval = seconds_in(text.substr(seconds.size()));
  } else {
    throw UsageError{fmt::format("--durable {}: it takes each, seconds N or off", text)};
  }
}

/// The words of the command line. The value of an option is the next word, or follows "=".
class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {}

  bool empty() const { return next_ == words_.size(); }
  std::string take() { return words_[next_++]; }
  std::string value_of(const std::string& option) {
    if (empty()) throw UsageError{fmt::format("{} needs a value behind it", option)};
    return take();
  }

 private:
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

std::vector<std::string> split(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t at = word.starts_with("--") ? word.find('=') : word.npos;
    words.push_back(word.substr(0, at));
    if (at != word.npos) words.push_back(word.substr(at + 1));
  }
  return words;
}

/// An option that stands for an environment variable.
struct VariableOption {
  std::string_view option;
  const char* variable;
};
constexpr std::array<VariableOption, 7> places{{{"--role", "DMLC_ROLE"},
                                                {"--root-uri", "DMLC_PS_ROOT_URI"},
                                                {"--root-port", "DMLC_PS_ROOT_PORT"},
                                                {"--num-worker", "DMLC_NUM_WORKER"},
                                                {"--num-server", "DMLC_NUM_SERVER"},
                                                {"--rank", "DMLC_RANK"},
                                                {"--listen-fd", "TUTTI_LISTEN_FD"}}};

/// Sets the variable in this process.
void set(const VariableOption& place, const std::string& value) {
  const char* const known = std::getenv(place.variable);
  if (known != nullptr && *known != '\0' && known != value) {
    throw UsageError{fmt::format("{} {} and {}={} contradict each other; leave one of them out",
                                 place.option, value, place.variable, known)};
  }
  ::setenv(place.variable, value.c_str(), 1);
}

[[noreturn]] void refuse(const std::string& option) {
  std::vector<std::string_view> known{"--state",         "--durable", "--restore",
                                      "--journal-bytes", "--help",    "--version"};
  for (const VariableOption& place : places) known.push_back(place.option);
  throw UsageError{
      fmt::format("unknown option {}{}", option, tutti::base::suggestion(option, known))};
}

/// Reads the options. An option that stands for a variable sets that variable.
tutti::Durability read(Words words) {
  tutti::Durability durability;
  while (!words.empty()) {
    const std::string option = words.take();
    const auto* const place = std::ranges::find(places, option, &VariableOption::option);
    if (place != places.end()) {
      set(*place, words.value_of(option));
    } else if (option == "--state") {
      durability.folder = words.value_of(option);
    } else if (option == "--durable") {
      std::string how = words.value_of(option);
      if (how == "seconds") how += "=" + words.value_of("--durable seconds");
      set_durable(durability, how);
    } else if (option == "--restore") {
      durability.restore = words.value_of(option);
    } else if (option == "--journal-bytes") {
      constexpr auto most = std::uint64_t{1} << 60;
      durability.journal_bytes = number_in(words.value_of(option), option, most);
    } else {
      refuse(option);
    }
  }
  if (durability.folder.empty() &&
      (durability.when != tutti::Durability::When::off || !durability.restore.empty())) {
    throw UsageError{"--durable and --restore need --state DIR: where the state is kept"};
  }
  return durability;
}

int run(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--help" || first == "-h") {
    fmt::print("{}", help);
    return 0;
  }
  if (first == "--version") {
    fmt::print("tutti {}\n", tutti::version());
    return 0;
  }
  const tutti::Durability durability = read(Words(split(argc, argv)));
  return tutti::run_server(tutti::Options::from_env(), durability) ? 0 : 1;
}

/// A shell reports this status for a process that SIGTERM has ended.
constexpr int terminated = 128 + 15;

int code_of(const tutti::Error& error) {
  if (error.code() == tutti::ErrorCode::aborted) return terminated;
  return error.code() == tutti::ErrorCode::invalid_argument ? 2 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  // The parent process may ignore this signal. A server waits for the processes that write its
  // checkpoints, so it needs the signal.
  std::signal(SIGCHLD, SIG_DFL);
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    fmt::print(stderr, "tutti-server: {}; see --help\n", tutti::base::printable(error.text));
    return 2;
  } catch (const tutti::Error& error) {
    fmt::print(stderr, "tutti-server: {}: {}\n", tutti::name(error.code()), error.what());
    return code_of(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-server: {}\n", tutti::base::printable(error.what()));
    return 1;
  }
}
