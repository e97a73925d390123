#include "ps/link/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/printable.h"
#include "base/wait_limits.h"
#include "ps/link/job_key.h"

namespace tutti::ps {
namespace {

constexpr std::uint64_t longest_seconds = 86'400;

/// The environment of one process. The errors name the variable.
class EnvironmentReader {
 public:
  explicit EnvironmentReader(Variables variables) : variables_(variables) {}

  std::optional<std::string> value(std::string_view name) const {
    const auto it =
        std::ranges::find(variables_, name, &std::pair<std::string, std::string>::first);
    if (it == variables_.end()) return std::nullopt;
    return it->second;
  }

  /// The variable's text. Empty if it is not set.
  std::string text(std::string_view name) const { return value(name).value_or(""); }

  std::string required(std::string_view name, std::string_view what) const {
    std::string value = text(name);
    if (!value.empty()) return value;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("environment variable {} is not set: {}; scripts/launch.py --mode ps "
                            "sets it for every process of a parameter-server job",
                            name, what));
  }

  std::uint64_t number(std::string_view name, std::string_view value, std::uint64_t least,
                       std::uint64_t most) const {
    std::uint64_t parsed = 0;
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, parsed);
    if (error == std::errc() && stop == end && parsed >= least && parsed <= most) return parsed;
    refuse(name, value, fmt::format("a whole number from {} to {}", least, most));
  }

  /// Unset if the variable is.
  std::optional<std::uint64_t> optional_number(std::string_view name, std::uint64_t least,
                                               std::uint64_t most) const {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    return number(name, value, least, most);
  }

  [[noreturn]] static void refuse(std::string_view name, std::string_view value,
                                  const std::string& takes) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("environment variable {}={} is not usable; it takes {}", name,
                            base::quoted(value), takes));
  }

 private:
  Variables variables_;
};

Role role_of(const std::string& text) {
  if (text.empty()) return Role::worker;
  for (const Role role : {Role::scheduler, Role::server, Role::worker}) {
    if (text == name(role)) return role;
  }
  EnvironmentReader::refuse("DMLC_ROLE", text, "scheduler, server or worker");
}

int count(const EnvironmentReader& reader, std::string_view name, std::string_view what) {
  constexpr std::uint64_t most = 1 << 16;
  return static_cast<int>(reader.number(name, reader.required(name, what), 1, most));
}

/// The number is in seconds, as in ps-lite. There, 0 leaves the choice to the system.
std::optional<std::chrono::milliseconds> seconds(const EnvironmentReader& reader,
                                                 std::string_view name) {
  const auto number = reader.optional_number(name, 0, longest_seconds);
  if (!number || *number == 0) return std::nullopt;
  return std::chrono::seconds(*number);
}

void read_listener(const EnvironmentReader& reader, Job& job) {
  constexpr std::string_view name = "TUTTI_LISTEN_FD";
  const auto number = reader.optional_number(name, 3, std::numeric_limits<int>::max());
  if (!number) return;
  if (job.role != Role::scheduler) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} (--listen-fd) is only for the scheduler, which takes over a "
                            "socket that already listens; leave it out",
                            name));
  }
  job.listener = static_cast<int>(*number);
}

void read_heartbeat(const EnvironmentReader& reader, Job& job) {
  job.heartbeat_interval = seconds(reader, "PS_HEARTBEAT_INTERVAL");
  job.heartbeat_timeout = seconds(reader, "PS_HEARTBEAT_TIMEOUT");
  if (!job.heartbeat_interval || !job.heartbeat_timeout) return;
  if (2 * *job.heartbeat_interval <= *job.heartbeat_timeout) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("PS_HEARTBEAT_INTERVAL={} and PS_HEARTBEAT_TIMEOUT={} contradict each other: "
                  "at least two heartbeats must fit into the timeout",
                  reader.text("PS_HEARTBEAT_INTERVAL"), reader.text("PS_HEARTBEAT_TIMEOUT")));
}

void read_resending(const EnvironmentReader& reader, Job& job) {
  const bool resend = reader.optional_number("PS_RESEND", 0, 1).value_or(0) == 1;
  // The number is in milliseconds, as in ps-lite.
  const auto after = reader.optional_number("PS_RESEND_TIMEOUT", 1, longest_seconds * 1000);
  if (resend) job.resend_after = std::chrono::milliseconds(after.value_or(1000));
  const auto percent = [&](std::string_view name) {
    return static_cast<int>(reader.optional_number(name, 0, 90).value_or(0));
  };
  job.faults = {percent("PS_DROP_MSG"), percent("PS_DELAY_MSG"), percent("PS_DUPLICATE_MSG")};
  if (job.faults.drop + job.faults.delay + job.faults.duplicate > 100) {
    throw Error(ErrorCode::invalid_argument,
                "PS_DROP_MSG, PS_DELAY_MSG and PS_DUPLICATE_MSG are per cent of all messages, "
                "but add up to more than 100");
  }
  if (resend || !job.faults.any()) return;
  throw Error(ErrorCode::invalid_argument,
              "PS_DROP_MSG, PS_DELAY_MSG and PS_DUPLICATE_MSG, which are for tests, lose "
              "messages for good if nothing sends them again; set PS_RESEND=1, too");
}

}  // namespace

Job Job::from(Variables variables) {
  const EnvironmentReader reader(variables);
  Job job;
  job.role = role_of(reader.text("DMLC_ROLE"));
  job.root = reader.required("DMLC_PS_ROOT_URI", "the host of the job's scheduler");
  const std::string port = reader.required("DMLC_PS_ROOT_PORT", "the port of the job's scheduler");
  job.port = static_cast<std::uint16_t>(reader.number("DMLC_PS_ROOT_PORT", port, 1, 65535));
  job.size.workers = count(reader, "DMLC_NUM_WORKER", "how many workers the job has");
  job.size.servers = count(reader, "DMLC_NUM_SERVER", "how many servers the job has");
  if (const std::string rank = reader.text("DMLC_RANK"); !rank.empty()) {
    job.wanted_rank = static_cast<int>(reader.number("DMLC_RANK", rank, 0, 1 << 16));
  }
  job.node_host = reader.text("DMLC_NODE_HOST");
  if (const std::string bound = reader.text("MXNET_KVSTORE_BIGARRAY_BOUND"); !bound.empty()) {
    job.big_count = reader.number("MXNET_KVSTORE_BIGARRAY_BOUND", bound, 1,
                                  std::numeric_limits<std::int64_t>::max());
  }
  const auto secret = secret_of(reader.value("TUTTI_JOB_KEY"), reader.value("TUTTI_JOB_KEY_FILE"));
  job.has_secret = secret.has_value();
  job.secret = secret ? *secret : secret_of_user(reader.text("HOME"));
  read_listener(reader, job);
  job.end_notices = reader.text(net::EndNotices::variable);
  job.verbose = static_cast<int>(reader.optional_number("PS_VERBOSE", 0, 2).value_or(0));
  read_heartbeat(reader, job);
  read_resending(reader, job);
  return job;
}

net::Heartbeat Job::heartbeat(const Options& options) const {
  const auto timeout = silence_limit(options);
  net::Heartbeat heartbeat = net::Heartbeat::from(timeout, timeout);
  if (heartbeat_interval) {
    const auto beats =
        (timeout + *heartbeat_interval - std::chrono::milliseconds(1)) / *heartbeat_interval;
    heartbeat.beat = *heartbeat_interval;
    heartbeat.most_missed = static_cast<int>(std::max<decltype(beats)>(beats, 2));
  }
  if (heartbeat_timeout) {
    heartbeat.limit = base::seconds_text(timeout) + " (PS_HEARTBEAT_TIMEOUT)";
  }
  return heartbeat;
}

std::string Job::nearby_name(const std::string& address, std::uint16_t at) const {
  return net::secret_name(secret, fmt::format("server at {}:{}", address, at));
}

net::EndNotices Job::notices() const {
  return {end_notices, fmt::format("{}:{}", root, port)};
}

std::string Job::describe_scheduler() const {
  return fmt::format("the scheduler at {}:{}", base::printable(root, 256), port);
}

}  // namespace tutti::ps
