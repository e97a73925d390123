// Settings that fail on every worker alike, or on one that did not wait for the others.
#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <vector>

#include "base/sealed_file.h"
#include "optimizer/saved.h"
#include "ps/local_job.h"
#include "unit/errors.h"
#include "unit/folder.h"

using namespace tutti;
using namespace std::chrono_literals;
using Catch::Contains;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

Options with_timeout(std::chrono::milliseconds key_timeout) {
  Options options = LocalJob::options();
  options.key_timeout = key_timeout;
  return options;
}

/// The value of a weight of 0 after each of two workers has pushed 1 once.
std::string after_a_push(KVStore& kv) {
  Floats value{0};
  Floats gradient{1};
  kv.push({"w"}, {tensor(gradient)}).wait();
  kv.barrier();
  kv.pull({"w"}, {tensor(value)}).wait();
  return text_of(value);
}

void init(KVStore& kv) {
  Floats value{0};
  kv.init({"w"}, {tensor(value)});
}

}  // namespace

TEST_CASE("a file with an optimizer that this version does not take fails on all workers at once") {
  const Folder folder;
  const std::string path = folder.path() + "/states";
  base::write_sealed(path, optimizer::write_saved({.rule = "x", .optimizer = Optimizer{"x"}}));
  for (const char* type : {"dist_sync", "dist_async"}) {
    LocalJob job({});
    const auto said = job.run(
        [&](KVStore& kv) {
          std::string text = error_of([&] { kv.load_optimizer_states(path); });
          // From here on both workers count their settings in the same way.
          kv.set_optimizer({"sgd", {{"learning_rate", 1}}});
          init(kv);
          return text + "; " + after_a_push(kv);
        },
        type, with_timeout(10s));
    INFO(type);
    CHECK(said[0] == said[1]);
    CHECK_THAT(said[0], Contains("invalid_argument: load_optimizer_states: ") &&
                            Contains("optimizer 'x' is not known") && Contains("; -2"));
  }
}

TEST_CASE("a setting that timed out counts on no worker, and all make it again") {
  LocalJob job({});
  std::promise<void> has_timed_out;
  const auto said = job.run(
      [&](KVStore& kv) {
        init(kv);
        if (kv.rank() == 1) has_timed_out.get_future().wait();
        std::string text = error_of([&] { kv.set_optimizer({"sgd", {{"learning_rate", 1}}}); });
        if (kv.rank() == 0) has_timed_out.set_value();
        text += "; " + after_a_push(kv);
        kv.set_optimizer({"sgd", {{"learning_rate", 1}}});
        text += "; " + after_a_push(kv);
        kv.set_optimizer({"sgd", {{"learning_rate", 2}}});
        return text + "; " + after_a_push(kv);
      },
      "dist_sync", with_timeout(2s));
  // Without an optimizer a push assigns the sum.
  CHECK_THAT(said[0], Contains("timeout: set_optimizer was given up after 2 s (key_timeout,") &&
                          Contains("; 2; 0; -4"));
  CHECK(said[1] == said[0]);
}
