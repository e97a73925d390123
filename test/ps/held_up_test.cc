// Settings, and a worker that leaves, behind calls that a server does not read.
#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <vector>

#include "ps/local_job.h"
#include "unit/base/logged.h"
#include "unit/errors.h"
#include "unit/folder.h"

using namespace tutti;
using namespace std::chrono_literals;
using Catch::Contains;
using Floats = std::vector<float>;

namespace {

constexpr std::chrono::milliseconds key_timeout = 2s;
/// More than the sockets and the connection of a worker hold, each too small for shared memory.
constexpr int many = 200;
const Floats small(3000, 1.5F);

Options impatient() {
  Options options = LocalJob::options();
  options.key_timeout = key_timeout;
  options.stall_report_after = key_timeout / 4;
  return options;
}

/// Far more than the server takes in of calls that the other worker has not made.
std::vector<Pending> run_ahead(KVStore& kv, std::vector<Floats>& values) {
  std::vector<Pending> pendings;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Key key(static_cast<std::int64_t>(i));
    pendings.push_back(kv.pushpull(key, tensor(values[i]), tensor(values[i])));
  }
  return pendings;
}

/// How the last of them ends.
std::string end_of(const std::vector<Pending>& pendings) {
  std::string end;
  for (const Pending& pending : pendings) end = error_of([&] { pending.wait(); });
  return end;
}

LocalJob::Size narrow() {
  return {.workers = 2, .servers = 1, .key_timeout = 10s, .most_waiting_bytes = 1 << 16};
}

}  // namespace

TEST_CASE("a setting behind calls that a server does not read follows them once they have failed") {
  const Logged log;
  LocalJob job(narrow());
  const Folder folder;
  const std::string file = folder.path() + "/states";
  const Optimizer sgd{"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}};
  std::promise<void> tried;
  std::string set;
  std::string late;
  const auto heard = job.run(
      [&](KVStore& kv) {
        std::vector<Floats> values(many, small);
        std::vector<Pending> pendings;
        if (kv.rank() == 0) {
          pendings = run_ahead(kv, values);
          set = error_of([&] { kv.set_optimizer(sgd); });
          tried.set_value();
        } else {
          tried.get_future().wait_for(5 * key_timeout);
          late = error_of([&] { kv.set_optimizer(sgd); });
          pendings = run_ahead(kv, values);
        }
        kv.set_optimizer(sgd);
        kv.save_optimizer_states(file + std::to_string(kv.rank()));
        return end_of(pendings);
      },
      "dist_sync", impatient());
  CHECK_THAT(
      set,
      Contains(
          "timeout: set_optimizer was given up after 2 s (key_timeout, TUTTI_TIMEOUT_SECONDS) on "
          "worker 0: worker 1 has not made its call of set_optimizer"));
  CHECK(late == set);
  CHECK_THAT(log.text(),
             Contains("set_optimizer has waited ") && Contains(" s for server 0 to take "));
  CHECK_THAT(heard[0], Contains("timeout: pushpull of key 199 was given up after 2 s (key"));
  CHECK(heard[1] == heard[0]);
}

TEST_CASE("a worker leaves though a server does not read its calls") {
  const Logged log;
  LocalJob job(narrow());
  std::promise<void> closes;
  const auto heard = job.run(
      [&](KVStore& kv) {
        if (kv.rank() == 0) {
          std::vector<Floats> values(many, small);
          const std::vector<Pending> pendings = run_ahead(kv, values);
          closes.set_value();
          kv.close();
          return end_of(pendings);
        }
        closes.get_future().wait();
        std::string met = error_of([&] { kv.barrier(); });
        // The call that the other had made before it left.
        Floats value = small;
        const Key last(many - 1);
        return met + "; " +
               error_of([&] { kv.pushpull(last, tensor(value), tensor(value)).wait(); });
      },
      "dist_sync", impatient());
  CHECK_THAT(heard[0], Contains("timeout: pushpull of key 199 was given up after 2 s (key"));
  CHECK_THAT(heard[1], Contains("aborted: ") && Contains("worker 0 has left"));
  CHECK_THAT(heard[1], Contains("; " + heard[0]));
  CHECK_THAT(log.text(), Contains("leaving the job has waited "));
  CHECK(job.ends() == std::vector<std::string>{"", ""});
}
