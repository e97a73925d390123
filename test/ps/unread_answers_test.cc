// Workers that ask for much and read nothing of what a server answers.
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <thread>

#include "net/connection.h"
#include "net/sockets.h"
#include "ps/link/scheduler_link.h"
#include "ps/local_job.h"
#include "ps/protocol/wire.h"
#include "ps/scheduler/directory.h"
#include "tutti/version.h"
#include "unit/base/logged.h"

using namespace tutti;
using namespace std::chrono_literals;
using base::Clock;
using Catch::Contains;
using Floats = std::vector<float>;

namespace {

constexpr auto longest_wait = 20s;
/// A value of one piece. The sockets of a connection hold a few of these.
const Floats large(ps::largest_piece / sizeof(float), 1.5F);
constexpr int many_answers = 256;

/// A worker by hand: it reads its answers when the test says so.
class Idler {
 public:
  explicit Idler(const LocalJob& job)
      : scheduler_(job.job(), LocalJob::options(), poller_, 0),
        welcome_(scheduler_.join({.role = ps::Role::worker,
                                  .workers = job.job().size.workers,
                                  .servers = 1,
                                  .version = version()})),
        server_(call(job.job().secret)) {}

  void say(ps::Kind kind, const Key& key, const Floats& values) {
    ps::Contribution said{.sequence = ++sequence_, .piece = {key, 0, 1}, .kind = kind};
    said.shape = {static_cast<std::int64_t>(values.size())};
    if (brings_data(said, welcome_.rank)) said.data = std::as_bytes(std::span(values));
    server_.queue(ps::encode_head(said), {said.data});
  }
  void pull(const Key& key, const Floats& like) {
    const auto count = static_cast<std::int64_t>(like.size());
    server_.queue(ps::encode(
        ps::ToServer(ps::Pull{.sequence = ++sequence_, .piece = {key, 0, 1}, .shape = {count}})));
  }
  /// Sends until the server takes nothing for half a second; how many bytes are left then.
  std::size_t send() {
    while (server_.has_unwritten()) {
      server_.flush();
      scheduler_.beat();
      if (!net::wait_writable(server_.socket(), Clock::now() + 500ms)) break;
    }
    return server_.unwritten_bytes();
  }
  void wait_for_answers() const {
    net::wait_readable(server_.socket(), Clock::now() + longest_wait);
  }
  /// Reads until it has this many answers, or the answers to all requests. Returns how many of them
  /// are failures.
  int read() { return read(sequence_); }
  int read(std::uint64_t wanted) {
    int failed = 0;
    net::Parcel parcel;
    const auto deadline = Clock::now() + longest_wait;
    while (answered_ < wanted) {
      server_.flush();
      scheduler_.beat();
      if (server_.receive()) FAIL("the server has closed the connection");
      if (Clock::now() > deadline) FAIL("only " << answered_ << " answers have come");
      while (server_.next(parcel)) {
        ++answered_;
        const bool is_apart = !parcel.head.empty();
        const ps::Answer answer = is_apart ? ps::decode_answer(parcel.head, parcel.body_span())
                                           : ps::decode_answer(parcel.body_span());
        failed += answer.failure ? 1 : 0;
      }
    }
    return failed;
  }
  void finish() {
    scheduler_.send(ps::Goodbye{});
    scheduler_.send(ps::Finished{});
    scheduler_.close();
  }

 private:
  net::ProvenPeer call(const net::Secret& secret) const {
    std::vector<net::Candidate> candidates;
    candidates.push_back({net::start_connecting("127.0.0.1", welcome_.servers.at(0).port, ""), ""});
    return net::prove_to(
        std::move(candidates),
        {.rank = welcome_.rank, .secret = secret, .purpose = ps::server_purpose(welcome_.job)}, 0,
        Clock::now() + longest_wait);
  }

  net::Poller poller_;
  ps::SchedulerLink scheduler_;
  const ps::Welcome welcome_;
  net::Connection server_;
  std::uint64_t sequence_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace

TEST_CASE("a worker that does not read its answers is not heard until it does") {
  LocalJob job({.workers = 1, .servers = 1, .most_waiting_bytes = 1 << 20});
  Idler worker(job);
  worker.say(ps::Kind::init, "w", large);
  for (int i = 0; i < many_answers; ++i) worker.pull("w", large);
  CHECK(worker.send() == 0);
  worker.wait_for_answers();
  for (int i = 0; i < many_answers; ++i) worker.say(ps::Kind::push, "w", large);
  const std::size_t left = worker.send();
  CHECK(left > many_answers / 2 * ps::largest_piece);
  // Some of them are not enough.
  CHECK(worker.read(many_answers / 4) == 0);
  CHECK(worker.send() + 16 * ps::largest_piece > left);
  CHECK(worker.read() == 0);
  worker.finish();
  CHECK(job.ends() == std::vector<std::string>{"", ""});
}

TEST_CASE("a worker that does not read its answers is heard when another waits for it") {
  const Logged log;
  LocalJob job({.workers = 2, .servers = 1, .most_waiting_bytes = 1 << 20});
  std::promise<void> is_ahead;
  std::promise<std::string> summed;
  const auto other = std::async(std::launch::async, [&] {
    return LocalJob::run_one([&](KVStore& kv) {
      Floats value = large;
      kv.init({"w"}, {tensor(value)});
      is_ahead.get_future().wait();
      Floats sum{2};
      kv.pushpull("g", tensor(sum), tensor(sum)).wait();
      summed.set_value(text_of(sum));
      return "";
    });
  });
  Idler worker(job);
  worker.say(ps::Kind::init, "w", large);
  for (int i = 0; i < many_answers; ++i) worker.pull("w", large);
  CHECK(worker.send() == 0);
  const auto deadline = Clock::now() + longest_wait;
  while (log.text().find("far ahead") == std::string::npos && Clock::now() < deadline) {
    std::this_thread::sleep_for(5ms);
  }
  CHECK_THAT(log.text(), Contains("is far ahead"));
  is_ahead.set_value();
  const Floats one{1};
  worker.say(ps::Kind::pushpull, "g", one);
  std::future<std::string> sum = summed.get_future();
  while (sum.wait_for(5ms) != std::future_status::ready && Clock::now() < deadline) worker.send();
  CHECK((sum.wait_for(0s) == std::future_status::ready && sum.get() == "3"));
  CHECK(worker.read() == 0);
  worker.finish();
}
