// How blocking methods and calls under way end in callbacks, in children, and when a job ends.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "ps/local_job.h"
#include "ps/sleeper.h"
#include "unit/errors.h"

using namespace tutti;
using Catch::EndsWith;
using Catch::StartsWith;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

bool is_unsupported(const std::function<void()>& call) {
  return error_of(call).starts_with("unsupported: ");
}

/// The errors of methods that block, when a callback calls them.
std::string refusals(KVStore& kv, Floats& rows) {
  Floats ids{0};
  const Tensor row_ids(ids.data(), {1}, DType::f32);
  const Tensor table(rows.data(), {2, 1}, DType::f32);
  std::string said;
  const auto attempt = [&](const std::function<void()>& call) {
    const std::string error = error_of(call);
    said +=
        error.starts_with("invalid_argument: ") && error.find(" inside a callback") != error.npos
            ? "refused;"
            : error;
  };
  attempt([&] { kv.barrier(); });
  attempt([&] { kv.init({"new"}, {table}); });
  attempt([&] { kv.row_sparse_pull({"w"}, {table}, {row_ids}); });
  attempt([&] { kv.set_optimizer({"sgd", {}, {}}); });
  attempt([&] { kv.load_optimizer_states("nowhere"); });
  attempt([&] { kv.close(); });
  return said;
}

}  // namespace

TEST_CASE("a blocking call is refused in a callback before it acts, and a barrier goes on") {
  LocalJob job({.workers = 2, .servers = 1});
  std::promise<void> listens;
  std::promise<std::string> said_there;
  const std::shared_future<std::string> refused = said_there.get_future().share();
  Floats rows{7, 7};
  CHECK(job.run([&](KVStore& kv) {
    Floats table{1, 2};
    Floats sum{1};
    kv.init({"w"}, {Tensor(table.data(), {2, 1}, DType::f32)});
    if (kv.rank() == 1) listens.get_future().wait();
    const Pending first = kv.pushpull("g", tensor(sum), tensor(sum));
    if (kv.rank() == 0) {
      first.then([&](const std::exception_ptr&) {
        // By then the program's thread is in its barrier.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        said_there.set_value(refusals(kv, rows));
      });
      listens.set_value();
    } else {
      refused.wait();
    }
    kv.barrier();
    // Nothing of the refused calls was sent.
    kv.init({"new"}, {tensor(sum)});
    kv.pull({"new"}, {tensor(sum)}).wait();
    return refused.get() + text_of(sum) + ", " + text_of(rows);
  }) == Said(2, "refused;refused;refused;refused;refused;refused;2, 7 7"));
  CHECK(job.ends() == Said{"", ""});
}

TEST_CASE("in a forked child a call that was under way throws and never waits") {
  const LocalJob job({.workers = 2, .servers = 1});
  std::promise<void> child_is_gone;
  std::thread late([&] {
    LocalJob::run_one([&](KVStore& kv) {
      child_is_gone.get_future().wait();
      Floats value{1};
      kv.pushpull("g", tensor(value), tensor(value)).wait();
      return "";
    });
  });
  auto store = KVStore::create("dist_sync", LocalJob::options());
  Floats value{1};
  const Pending pending = store->pushpull("g", tensor(value), tensor(value));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    int right = 0;
    // In the first turn the child has its copy of the store. In the second turn it has dropped the
    // copy.
    for (int turn = 0; turn < 2; ++turn) {
      right += is_unsupported([&] { pending.wait(); });
      right += is_unsupported([&] { pending.wait_for(std::chrono::seconds(1)); });
      right += is_unsupported([&] { pending.then([](const auto&) {}); });
      store.reset();
    }
    ::_exit(right);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  child_is_gone.set_value();
  pending.wait();
  store.reset();
  late.join();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 6);
  CHECK(value == Floats{2});
}

TEST_CASE("close throws the error that ended the store, if no call has told it") {
  enum class Loss { before_close, during_close, told };
  const Loss loss = GENERATE(Loss::before_close, Loss::during_close, Loss::told);
  const LocalJob job({});
  std::optional<Sleeper> dying;
  std::promise<void> under_way;
  std::string said;
  std::thread survivor([&] {
    said = LocalJob::run_one([&](KVStore& kv) {
      Floats values{1};
      const Pending last = kv.pushpull("g", tensor(values), tensor(values));
      under_way.set_value();
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (loss == Loss::before_close && kv.num_dead_node() == 0) {
        if (std::chrono::steady_clock::now() > end) return std::string("no node was lost in 10 s");
        std::this_thread::yield();
      }
      std::string text = loss == Loss::told ? error_of([&] { last.wait(); }) + "; " : "";
      text += error_of([&] { kv.close(); });
      return text + "; " + error_of([&] { kv.close(); });
    });
  });
  dying.emplace(job.job(), 1);
  under_way.get_future().wait();
  // By then the server has the call, and may be the first to tell which worker is lost.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  dying.reset();
  survivor.join();
  const std::string lost = "peer_lost: worker 1 is lost: its connection to the scheduler ended";
  CHECK_THAT(said, StartsWith(lost));
  CHECK_THAT(said, EndsWith(loss == Loss::told ? "; no error; no error" : "; no error"));
}
