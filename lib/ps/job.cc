#include "ps/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/printable.h"

namespace tutti::ps {
namespace {

/// The environment of one process, read with errors that name the variable.
class Reader {
 public:
  explicit Reader(Variables variables) : variables_(variables) {}

  /// Empty: it is not set.
  std::string text(std::string_view name) const {
    const auto it =
        std::ranges::find(variables_, name, &std::pair<std::string, std::string>::first);
    return it == variables_.end() ? "" : it->second;
  }

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
  Reader::refuse("DMLC_ROLE", text, "scheduler, server or worker");
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// The value is not repeated in errors: it is a secret.
net::Secret secret_of(const std::string& hex) {
  std::string bytes;
  bool usable = hex.size() == 2 * net::secret_bytes;
  for (std::size_t i = 0; usable && i < hex.size(); i += 2) {
    const int high = digit(hex[i]);
    const int low = digit(hex[i + 1]);
    usable = high >= 0 && low >= 0;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  if (!usable) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("environment variable TUTTI_JOB_KEY is not usable; it takes {} digits "
                            "0-9a-f, the same for all processes of the job",
                            2 * net::secret_bytes));
  }
  return net::make_secret(bytes);
}

int count(const Reader& reader, std::string_view name, std::string_view what) {
  constexpr std::uint64_t most = 1 << 16;
  return static_cast<int>(reader.number(name, reader.required(name, what), 1, most));
}

}  // namespace

Job Job::from(Variables variables) {
  const Reader reader(variables);
  Job job;
  job.role = role_of(reader.text("DMLC_ROLE"));
  job.root = reader.required("DMLC_PS_ROOT_URI", "the host of the job's scheduler");
  const std::string port = reader.required("DMLC_PS_ROOT_PORT", "the port of the job's scheduler");
  job.port = static_cast<std::uint16_t>(reader.number("DMLC_PS_ROOT_PORT", port, 1, 65535));
  job.company.workers = count(reader, "DMLC_NUM_WORKER", "how many workers the job has");
  job.company.servers = count(reader, "DMLC_NUM_SERVER", "how many servers the job has");
  if (const std::string rank = reader.text("DMLC_RANK"); !rank.empty()) {
    job.wanted_rank = static_cast<int>(reader.number("DMLC_RANK", rank, 0, 1 << 16));
  }
  job.node_host = reader.text("DMLC_NODE_HOST");
  if (const std::string bound = reader.text("MXNET_KVSTORE_BIGARRAY_BOUND"); !bound.empty()) {
    job.big_count = reader.number("MXNET_KVSTORE_BIGARRAY_BOUND", bound, 1,
                                  std::numeric_limits<std::int64_t>::max());
  }
  const std::string key = reader.text("TUTTI_JOB_KEY");
  job.has_secret = !key.empty();
  // Without a secret there is still a handshake; it keeps out nobody but what speaks otherwise.
  job.secret = job.has_secret ? secret_of(key) : net::make_secret(std::string(32, '\0'));
  return job;
}

std::string Job::describe_scheduler() const {
  return fmt::format("the scheduler at {}:{}", base::printable(root, 256), port);
}

}  // namespace tutti::ps
