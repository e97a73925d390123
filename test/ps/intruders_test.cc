// Strangers connect to scheduler and servers, or send messages that no process of the job sends.
// They are turned away, and the job goes on.
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "net/connection.h"
#include "net/sockets.h"
#include "ps/link/delivery.h"
#include "ps/link/scheduler_link.h"
#include "ps/local_job.h"
#include "ps/protocol/wire.h"
#include "tutti/version.h"
#include "unit/base/logged.h"

using namespace tutti;
using namespace std::chrono_literals;
using base::Clock;
using Catch::Contains;
using net::Bytes;
using net::ConstBytes;

namespace {

constexpr auto longest_silence = 5s;

void send_raw(const base::Fd& socket, ConstBytes bytes) {
  while (!bytes.empty() && net::wait_writable(socket, Clock::now() + longest_silence)) {
    const ssize_t count = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;  // it was closed
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

/// Whether the other end closes within the time.
bool is_closed(const base::Fd& socket) {
  std::array<std::byte, 4096> bytes;
  while (net::wait_readable(socket, Clock::now() + longest_silence)) {
    if (::recv(socket.get(), bytes.data(), bytes.size(), 0) <= 0) return true;
  }
  return false;
}

base::Fd connected(std::uint16_t port) {
  base::Fd socket = net::start_connecting("127.0.0.1", port, "");
  net::wait_writable(socket, Clock::now() + longest_silence);
  return socket;
}

/// A message as it is in a stream.
Bytes streamed(ConstBytes message) {
  Bytes stream;
  net::append_u32(stream, static_cast<std::uint32_t>(message.size()));
  net::append(stream, message);
  return stream;
}

Bytes sealed(net::FrameSealer& sealer, ConstBytes stream) {
  net::SliceQueue slices;
  sealer.seal({stream}, slices);
  Bytes wire;
  for (const net::Slice& slice : slices.all()) net::append(wire, slice.bytes);
  return wire;
}

/// A message as a channel puts it on its connection.
Bytes packet(std::uint64_t number, ConstBytes message) {
  Bytes bytes(ps::Delivery::head_bytes);
  net::store_u32(bytes.data(), static_cast<std::uint32_t>(number));
  net::append(bytes, message);
  return streamed(bytes);
}

/// The only worker of a job with one server, by hand.
class Intruder {
 public:
  explicit Intruder(const LocalJob& job)
      : job_(job.job()), scheduler_(job_, LocalJob::options(), poller_, 0) {
    welcome_ = scheduler_.join(
        {.role = ps::Role::worker, .workers = 1, .servers = 1, .version = version()});
  }

  std::uint16_t server_port() const { return welcome_.servers.at(0).port; }
  net::ProvenPeer call(int rank, const net::Secret& secret, std::uint64_t jobs_off = 0) const {
    std::vector<net::Candidate> candidates;
    candidates.push_back({connected(server_port()), "127.0.0.1"});
    return net::prove_to(
        std::move(candidates),
        {.rank = rank, .secret = secret, .purpose = ps::server_purpose(welcome_.job + jobs_off)}, 0,
        Clock::now() + longest_silence);
  }
  net::ProvenPeer call() const { return call(0, job_.secret); }
  const net::Secret& secret() const { return job_.secret; }

  static Bytes init_of(const std::string& key, std::uint64_t sequence = 1) {
    static const std::vector<float> value{1};
    ps::Contribution said{.sequence = sequence, .piece = {key, 0, 1}, .kind = ps::Kind::init};
    said.shape = {1};
    said.data = std::as_bytes(std::span(value));
    return ps::encode(ps::ToServer(said));
  }
  /// Sends this packet, which the server has not had, and hears that its request was done.
  bool is_served(const Bytes& stream, std::uint64_t sequence = 1) const {
    return said_to(stream, sequence) == "done";
  }
  /// The server's answer with this number: "done", or its failure. "nothing" if it closes without
  /// an answer.
  std::string said_to(const Bytes& stream, std::uint64_t sequence) const {
    const net::ProvenPeer peer = call();
    net::FrameSealer sealer({peer.send_key, peer.encrypts});
    net::FrameOpener opener({peer.receive_key, peer.encrypts});
    send_raw(peer.socket, sealed(sealer, stream));
    net::MessageReader messages;
    Bytes answer;
    std::array<std::byte, 4096> bytes;
    while (net::wait_readable(peer.socket, Clock::now() + longest_silence)) {
      const ssize_t count = ::recv(peer.socket.get(), bytes.data(), bytes.size(), 0);
      if (count <= 0) return "nothing";
      opener.feed(ConstBytes(bytes).first(static_cast<std::size_t>(count)));
      while (const auto payload = opener.next()) messages.feed(*payload);
      while (messages.next(answer)) {
        const Bytes body(answer.begin() + ps::Delivery::head_bytes, answer.end());
        if (body.empty()) continue;  // it only acknowledges
        const ps::Answer said = ps::decode_answer(body);
        if (said.sequence == sequence) return said.failure ? said.failure->text : "done";
      }
    }
    return "nothing";
  }
  void finish() {
    scheduler_.send(ps::Goodbye{});
    scheduler_.send(ps::Finished{});
    scheduler_.close();
  }

 private:
  ps::Job job_;
  net::Poller poller_;
  ps::SchedulerLink scheduler_;
  ps::Welcome welcome_;
};

/// The bytes of a proven connection, as they are on the wire. The number is the packet's.
using Wire = std::function<Bytes(net::FrameSealer&, std::uint64_t number)>;

}  // namespace

TEST_CASE("a server turns away a stranger that proves nothing, or something else, and serves on") {
  LocalJob job({.workers = 1, .servers = 1, .resends = true});
  Intruder worker(job);
  const auto refused = [&](int rank, const net::Secret& secret, std::uint64_t jobs_off = 0) {
    try {
      const net::ProvenPeer peer = worker.call(rank, secret, jobs_off);
      return is_closed(peer.socket);
    } catch (const Error&) {
      return true;
    }
  };
  net::Secret wrong = worker.secret();
  wrong[0] ^= std::byte{1};
  CHECK(refused(0, wrong));
  CHECK(refused(1, worker.secret()));
  CHECK(refused(-1, worker.secret()));
  // The connection belongs to another job with the same key.
  CHECK(refused(0, worker.secret(), 1));
  for (const std::size_t size : {std::size_t{1}, std::size_t{60}, std::size_t{1} << 20}) {
    const base::Fd noise = connected(worker.server_port());
    send_raw(noise, Bytes(size, std::byte{0x55}));
    CHECK(is_closed(noise));
  }
  CHECK(worker.is_served(packet(1, Intruder::init_of("w"))));
  worker.finish();
}

TEST_CASE("a recording of one connection is of no use on another, nor a second time") {
  LocalJob job({.workers = 1, .servers = 1, .resends = true});
  Intruder worker(job);
  Bytes recorded;
  {
    const net::ProvenPeer peer = worker.call();
    net::FrameSealer sealer({peer.send_key, peer.encrypts});
    recorded = sealed(sealer, packet(1, Intruder::init_of("w")));
  }
  {
    const net::ProvenPeer other = worker.call();
    send_raw(other.socket, recorded);
    CHECK(is_closed(other.socket));
  }
  {
    const net::ProvenPeer peer = worker.call();
    net::FrameSealer sealer({peer.send_key, peer.encrypts});
    const Bytes pull =
        sealed(sealer, packet(1, ps::encode(ps::ToServer(ps::PullOptimizer{.sequence = 1}))));
    send_raw(peer.socket, pull);
    send_raw(peer.socket, pull);
    CHECK(is_closed(peer.socket));
  }
  CHECK(worker.is_served(packet(2, Intruder::init_of("w", 2)), 2));
  worker.finish();
}

TEST_CASE("malformed and oversize messages of a worker end its connection alone, and are logged") {
  const Logged log;
  LocalJob job({.workers = 1, .servers = 1, .resends = true});
  Intruder worker(job);
  const Bytes init = Intruder::init_of("w");
  struct Attack {
    const char* what;
    bool is_delivered;  ///< only what is in the packet is wrong
    Wire wire;
  };
  const auto bringing = [](Bytes message) -> Wire {
    return [message = std::move(message)](net::FrameSealer& sealer, std::uint64_t number) {
      return sealed(sealer, packet(number, message));
    };
  };
  const auto stream_of = [](Bytes stream) -> Wire {
    return [stream = std::move(stream)](net::FrameSealer& sealer, std::uint64_t) {
      return sealed(sealer, stream);
    };
  };
  const Attack attacks[] = {
      {"an oversize message", false, stream_of(Bytes(4, std::byte{0xff}))},
      {"an oversize frame", false,
       [](net::FrameSealer&, std::uint64_t) { return Bytes(70'000, std::byte{0xff}); }},
      {"a packet without a head", false, stream_of(streamed(Bytes(10)))},
      {"a request out of turn", false, stream_of(packet(1000, init))},
      {"noise", true, bringing(Bytes(200, std::byte{7}))},
      {"what a server says to the scheduler", true,
       bringing(ps::encode(ps::ToScheduler(ps::Stopping{"now"})))},
  };
  std::uint64_t number = 1;
  for (const Attack& attack : attacks) {
    INFO(attack.what);
    const net::ProvenPeer peer = worker.call();
    net::FrameSealer sealer({peer.send_key, peer.encrypts});
    send_raw(peer.socket, attack.wire(sealer, number));
    CHECK(is_closed(peer.socket));
    if (attack.is_delivered) ++number;
  }
  CHECK(worker.is_served(packet(number, init)));
  worker.finish();
  CHECK(job.ends() == std::vector<std::string>{"", ""});
  const std::string text = log.text();
  const std::string which = "of worker 0, the last one because: ";
  CHECK_THAT(text, Contains("server 0 has closed 1 connection of worker 0: a message has") &&
                       Contains("(127.0.0.1:") &&
                       Contains("2 connections " + which + "a frame has 4294967295 bytes") &&
                       Contains("4 connections " + which) && Contains("6 connections " + which));
}

TEST_CASE("a frame that is not a worker's ends its connection and is logged by address") {
  const bool resends = GENERATE(true, false);
  const Logged log;
  LocalJob job({.workers = 1, .servers = 1, .resends = resends});
  Intruder worker(job);
  {
    const net::ProvenPeer peer = worker.call();
    net::FrameSealer sealer({peer.receive_key, peer.encrypts});
    send_raw(peer.socket, sealed(sealer, packet(1, Intruder::init_of("w"))));
    CHECK(is_closed(peer.socket));
  }
  worker.finish();
  CHECK(job.ends() == std::vector<std::string>{"", ""});
  CHECK_THAT(log.text(), Contains("server 0 has closed 1 connection of worker 0: frame 0 is not "
                                  "authentic (127.0.0.1:"));
}

TEST_CASE("a worker that brings less than it says is told, and heard no more") {
  LocalJob job({.workers = 1, .servers = 1, .resends = true});
  Intruder worker(job);
  const Bytes init = Intruder::init_of("w");
  const Bytes half(init.begin(), init.end() - 2);
  CHECK_THAT(worker.said_to(packet(1, half), 0),
             Contains("reads no more of worker 0") &&
                 Contains("a init brings 2 bytes, but should bring 4"));
  worker.finish();
  CHECK(job.ends() == std::vector<std::string>{"", ""});
}

TEST_CASE("a server ignores the scheduler's messages when a worker sends them") {
  LocalJob job({.workers = 1, .servers = 1, .resends = true});
  Intruder worker(job);
  std::uint64_t number = 1;
  const ps::FromScheduler forged[] = {ps::Lost{ps::Role::scheduler, 0, "forged"},
                                      ps::Lost{ps::Role::worker, 0, "forged"}, ps::End{}};
  for (const ps::FromScheduler& message : forged) {
    const net::ProvenPeer peer = worker.call();
    net::FrameSealer sealer({peer.send_key, peer.encrypts});
    send_raw(peer.socket, sealed(sealer, packet(number++, ps::encode(message))));
    // Perhaps it is taken for a request that was received before, and closes nothing.
    net::wait_readable(peer.socket, Clock::now() + 100ms);
  }
  CHECK(worker.is_served(packet(number, Intruder::init_of("w"))));
  worker.finish();
  CHECK(job.ends() == std::vector<std::string>{"", ""});
}

TEST_CASE(
    "a worker that sends the scheduler messages of others is lost, and the scheduler serves on") {
  LocalJob job({.workers = 2, .servers = 1});
  std::string survivor;
  std::thread other([&] {
    survivor = LocalJob::run_one([](KVStore& kv) {
      std::vector<float> values{1};
      kv.pushpull("g", tensor(values), tensor(values)).wait();
      return "no error";
    });
  });
  {
    net::Poller poller;
    ps::SchedulerLink link(job.job(), LocalJob::options(), poller, 0);
    const ps::Register mine{
        .role = ps::Role::worker, .rank = 1, .workers = 2, .servers = 1, .version = version()};
    link.join(mine);
    // It is a server now, too, it says.
    ps::Register server = mine;
    server.role = ps::Role::server;
    server.brings = {{}};
    link.send(server);
    link.close();
  }
  other.join();
  CHECK_THAT(survivor, Contains("peer_lost: worker 1 is lost") && Contains("registered already"));
}
