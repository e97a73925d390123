#include "net/byte_ring.h"

#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "base/doorbell.h"
#include "net/message_stream.h"
#include "tutti/error.h"

using namespace tutti::net;
using namespace std::chrono_literals;

namespace {

struct SmallRing {
  RingCursors cursors;
  std::array<std::byte, 16> room{};
  ByteRing ring{cursors, room};
};

std::string text(std::size_t length, int seed) {
  std::string result(length, ' ');
  for (std::size_t i = 0; i < length; ++i) {
    result[i] = static_cast<char>('a' + (i + static_cast<std::size_t>(seed)) % 23);
  }
  return result;
}

}  // namespace

TEST_CASE("bytes come out of a ring as they went in, also where it wraps around") {
  SmallRing small;
  std::string in;
  std::string out;
  for (int i = 0; i < 50; ++i) {
    const std::string piece = text(11, i);
    const std::size_t count = small.ring.write(as_bytes(piece));
    CHECK(count == 11);
    in += piece;
    for (const ConstBytes part : small.ring.readable()) out += as_text(part);
    small.ring.consume(count);
  }
  CHECK(out == in);
  CHECK(small.ring.empty());
}

TEST_CASE("a full ring takes as much as fits, and its reader learns once that the writer waits") {
  SmallRing small;
  CHECK(small.ring.write(as_bytes(text(20, 0))) == 16);
  CHECK(small.ring.write(as_bytes("x")) == 0);
  CHECK(small.ring.ask_for_room());
  small.ring.consume(3);
  CHECK(small.ring.take_request_for_room());
  CHECK_FALSE(small.ring.take_request_for_room());
  CHECK_FALSE(small.ring.ask_for_room());
  CHECK(small.ring.write(as_bytes(text(20, 0))) == 3);
}

TEST_CASE("cursors that cannot be are an error, not a wild read") {
  SmallRing small;
  small.cursors.written = 17;
  CHECK_THROWS_AS(small.ring.readable(), tutti::Error);
  CHECK_THROWS_AS(small.ring.write(as_bytes("x")), tutti::Error);
}

TEST_CASE("messages of any size stream through a ring that is smaller than they are") {
  SmallRing small;
  MailSender sender(small.ring);
  MailReceiver receiver(small.ring);
  std::vector<std::string> sent;
  for (const std::size_t length : {0U, 1U, 5U, 12U, 13U, 100U, 1000U})
    sent.push_back(text(length, 3));
  for (const std::string& message : sent) sender.send(as_bytes(message));
  CHECK(sender.backlog_bytes() > 0);
  std::vector<std::string> got;
  for (Bytes message; got.size() < sent.size();) {
    const bool sender_waits = sender.backlog_bytes() > 0;
    CHECK(receiver.take_in() == sender_waits);
    while (receiver.next(message)) got.emplace_back(as_text(message));
    sender.flush();
  }
  CHECK(got == sent);
  CHECK(sender.backlog_bytes() == 0);
}

TEST_CASE("a length that no message has is refused before memory is taken for it") {
  MessageReader reader;
  Bytes stream;
  append_u32(stream, 0xfffffff0U);
  reader.feed(stream);
  Bytes message;
  CHECK_THROWS_AS(reader.next(message), tutti::Error);
}

TEST_CASE("writer and reader on two threads sleep and wake without losing anything") {
  SmallRing small;
  tutti::base::Doorbell reader_bell;
  tutti::base::Doorbell writer_bell;
  constexpr int messages = 20000;
  const auto deadline = tutti::base::Clock::now() + 60s;
  std::thread writer([&] {
    MailSender sender(small.ring);
    for (int i = 0; i < messages; ++i) {
      if (sender.send(as_bytes(text(static_cast<std::size_t>(i) % 40, i)))) reader_bell.ring();
      while (sender.backlog_bytes() > 0) {
        const auto ticket = writer_bell.ticket();
        if (sender.flush()) reader_bell.ring();
        if (sender.backlog_bytes() > 0 && !writer_bell.wait(ticket, deadline)) return;
      }
    }
  });
  MailReceiver receiver(small.ring);
  int wrong = 0;
  int got = 0;
  while (got < messages) {
    const auto ticket = reader_bell.ticket();
    if (receiver.take_in()) writer_bell.ring();
    const int before = got;
    for (Bytes message; receiver.next(message); ++got) {
      wrong += as_text(message) != text(static_cast<std::size_t>(got) % 40, got) ? 1 : 0;
    }
    if (got == before && !receiver.has_more() && !reader_bell.wait(ticket, deadline)) break;
  }
  writer.join();
  CHECK(got == messages);
  CHECK(wrong == 0);
}
