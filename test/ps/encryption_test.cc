// Jobs whose processes encrypt their messages.
#include <catch2/catch.hpp>

#include "ps/local_job.h"

using namespace tutti;
using Catch::Contains;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

std::string sum(KVStore& kv) {
  Floats value(100'000, 1);
  kv.pushpull("w", tensor(value), tensor(value)).wait();
  return text_of({value.front(), value.back()});
}

Options encrypting(bool encrypts) {
  Options options = LocalJob::options();
  options.encrypt = encrypts;
  return options;
}

}  // namespace

TEST_CASE("a job that encrypts sums as any other") {
  LocalJob job({.workers = 2, .servers = 2, .big_count = 1000, .encrypts = true});
  CHECK(job.run(sum, "dist_sync", encrypting(true)) == Said{"2 2", "2 2"});
}

TEST_CASE("a worker that does not encrypt as the others do is told what to set") {
  for (const bool encrypts : {false, true}) {
    LocalJob job({.workers = 1,
                  .servers = 1,
                  .create_timeout = std::chrono::milliseconds(500),
                  .encrypts = !encrypts});
    const auto said = job.run(sum, "dist_sync", encrypting(encrypts));
    CHECK_THAT(said[0], Contains("mismatch: ") && Contains("TUTTI_ENCRYPT=1"));
    CHECK_THAT(said[0],
               Contains(encrypts ? "it does not encrypt, and this end does"
                                 : "it encrypts (TUTTI_ENCRYPT=1), and this end does not"));
  }
}
