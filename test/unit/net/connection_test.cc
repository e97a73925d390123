#include "net/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <random>

#include "tutti/error.h"

using namespace tutti::net;
using tutti::base::Fd;

namespace {

std::pair<Fd, Fd> socket_pair() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

ProvenPeer peer(Fd socket, int mine, int theirs, bool encrypts) {
  ProvenPeer made{.rank = theirs, .socket = std::move(socket), .encrypts = encrypts};
  made.send_key[0] = static_cast<std::byte>(mine);
  made.receive_key[0] = static_cast<std::byte>(theirs);
  return made;
}

/// Two ends of a connection. Between them a test passes on what they send, in pieces, and may
/// change it.
struct Wire {
  explicit Wire(bool encrypts = false) {
    auto [a, a_far] = socket_pair();
    auto [b, b_far] = socket_pair();
    one.emplace(peer(std::move(a), 1, 2, encrypts));
    two.emplace(peer(std::move(b), 2, 1, encrypts));
    from_one = std::move(a_far);
    to_two = std::move(b_far);
  }

  /// Passes on up to this many bytes, and changes the byte at `changed` of all that is sent.
  /// Returns how many bytes it passed.
  std::size_t pass(std::size_t most, std::size_t changed = SIZE_MAX) {
    Bytes piece(most);
    const ssize_t got = ::recv(from_one.get(), piece.data(), piece.size(), 0);
    if (got <= 0) return 0;
    piece.resize(static_cast<std::size_t>(got));
    if (changed >= passed && changed - passed < piece.size()) {
      piece[changed - passed] ^= std::byte{1};
    }
    for (std::size_t sent = 0; sent < piece.size();) {
      const ssize_t count =
          ::send(to_two.get(), piece.data() + sent, piece.size() - sent, MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<std::size_t>(count);
      if (count < 0) ended = two->receive();
      if (ended) break;
    }
    passed += piece.size();
    return piece.size();
  }
  /// Passes on all there is, and receives it.
  void run(std::size_t piece, std::size_t changed = SIZE_MAX) {
    while (!ended && (one->has_unwritten() || pass(piece, changed) > 0)) {
      one->flush();
      pass(piece, changed);
      ended = two->receive();
    }
  }

  std::optional<Connection> one, two;
  Fd from_one, to_two;
  std::size_t passed = 0;
  std::optional<std::string> ended;
};

Bytes numbers(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  std::minstd_rand random(seed + 1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Bytes whole(const Parcel& parcel) {
  Bytes all = parcel.head;
  append(all, parcel.body_span());
  return all;
}

constexpr std::size_t large = std::size_t{16} << 10;

}  // namespace

TEST_CASE("messages of any size arrive whole and in order, however they are chopped") {
  const bool encrypts = GENERATE(false, true);
  const std::size_t piece = GENERATE(as<std::size_t>{}, 997, 20'000, 1 << 20);
  Wire wire(encrypts);
  std::vector<Bytes> sent;
  const std::size_t sizes[] = {0,      1,         large - 1, large,  3,      max_frame_payload,
                               70'000, 5,         7,         20'000, 20'001, 3 * max_frame_payload,
                               0,      1'000'003, 1,         large,  2};
  for (const std::size_t size : sizes) {
    sent.push_back(numbers(size, static_cast<unsigned>(sent.size())));
    const std::size_t head = std::min<std::size_t>(size, 40);
    if (sent.size() % 2 == 0) {
      wire.one->queue(sent.back());
    } else {
      wire.one->queue(ConstBytes(sent.back()).first(head),
                      Slice{ConstBytes(sent.back()).subspan(head)});
    }
    if (sent.size() % 3 == 0) wire.one->flush();
  }
  wire.run(piece);
  REQUIRE_FALSE(wire.ended);
  std::vector<Bytes> got;
  for (Parcel parcel; wire.two->next(parcel);) got.push_back(whole(parcel));
  CHECK(got == sent);
}

TEST_CASE("a large body is sent from where it lies and received in memory of its own") {
  Wire wire;
  Bytes body = numbers(200'000, 1);
  wire.one->queue(as_bytes("the head"), Slice{body});
  body[150'000] ^= std::byte{1};  // nothing was copied, so the bytes leave as they are then
  wire.run(1 << 20);
  Parcel parcel;
  REQUIRE(wire.two->next(parcel));
  CHECK(as_text(parcel.head) == "the head");
  CHECK(std::ranges::equal(parcel.body_span(), body));
  CHECK(reinterpret_cast<std::uintptr_t>(parcel.body.get()) % 64 == 0);
  const auto kept = parcel.body;
  CHECK_FALSE(wire.two->next(parcel));
  CHECK(std::equal(body.begin(), body.end(), kept.get()));
}

TEST_CASE("a body of which any frame was changed ends the connection, and is never handed out") {
  const bool encrypts = GENERATE(false, true);
  // One place is in the head, and one in each frame of the body.
  const std::size_t at = GENERATE(as<std::size_t>{}, 21, 40, 70'000, 130'000, 150'000, 200'000);
  Wire wire(encrypts);
  const Bytes body = numbers(200'000, 1);
  wire.one->queue(as_bytes("the head"), Slice{body});
  wire.one->queue(as_bytes("and one more"));
  wire.run(1 << 20, at);
  CHECK(wire.ended);
  Parcel parcel;
  CHECK_FALSE(wire.two->next(parcel));
}

TEST_CASE("a frame that is no part of the body that is under way ends the connection") {
  Wire wire;
  FrameSealer sealer({peer(Fd(), 1, 2, false).send_key, false});
  Bytes begin;
  append_u32(begin, 100'000);
  SliceQueue frames;
  sealer.seal({begin}, frames);
  const Bytes short_one(30'000);
  sealer.seal({short_one}, frames);
  Bytes sent;
  for (const Slice& slice : frames.all()) append(sent, slice.bytes);
  sent.resize(sent.size() + 40'000);  // as long as a frame of the body
  REQUIRE(::send(wire.to_two.get(), sent.data(), sent.size(), MSG_NOSIGNAL) > 0);
  std::optional<std::string> ended;
  for (int i = 0; i < 10 && !ended; ++i) ended = wire.two->receive();
  REQUIRE(ended);
  CHECK_THAT(*ended, Catch::Contains("frame 1 is not authentic"));
}

TEST_CASE("a connection that can write no more ends, though it might read on") {
  auto [mine, far] = socket_pair();
  Connection connection(peer(std::move(mine), 1, 2, false));
  connection.queue(as_bytes("a message"));
  REQUIRE(::shutdown(connection.socket().get(), SHUT_WR) == 0);
  CHECK_FALSE(connection.receive());
  connection.flush();
  CHECK_FALSE(connection.has_unwritten());
  CHECK(connection.receive());
}

TEST_CASE("a message above the bound is neither sent nor taken in") {
  Wire wire;
  const Bytes small(1);
  const Slice huge{{small.data(), std::size_t{257} << 20}};
  CHECK_THROWS_AS(wire.one->queue({}, huge), tutti::Error);
  FrameSealer sealer({peer(Fd(), 1, 2, false).send_key, false});
  Bytes begin;
  append_u32(begin, 0xfffffff0U);
  SliceQueue frames;
  sealer.seal({begin}, frames);
  for (const Slice& slice : frames.all()) {
    REQUIRE(::send(wire.to_two.get(), slice.bytes.data(), slice.bytes.size(), MSG_NOSIGNAL) > 0);
  }
  CHECK_THAT(wire.two->receive().value_or("it went through"), Catch::Contains("at most"));
}
