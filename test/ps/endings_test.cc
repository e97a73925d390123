// How blocking methods end in callbacks.
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "ps/local_job.h"

using namespace tutti;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
  return "no error";
}

/// What the methods that block say in a callback.
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

TEST_CASE("what blocks is refused in a callback before it acts, and a barrier goes on") {
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
    // Of what was refused nothing has been sent.
    kv.init({"new"}, {tensor(sum)});
    kv.pull({"new"}, {tensor(sum)}).wait();
    return refused.get() + text_of(sum) + ", " + text_of(rows);
  }) == Said(2, "refused;refused;refused;refused;refused;refused;2, 7 7"));
  CHECK(job.ends() == Said{"", ""});
}
