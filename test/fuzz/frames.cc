#include "net/frame.h"

#include <sys/socket.h>

#include <algorithm>

#include "fuzz/decoders.h"
#include "net/intake.h"
#include "net/message_stream.h"
#include "net/outflow.h"

namespace tutti::fuzz {
namespace {

/// Calls `feed` with the bytes in pieces of a few, as a socket may give them.
template <typename Feed>
void in_pieces(Bytes bytes, const Feed& feed) {
  for (std::size_t size = 1; !bytes.empty(); size = size % 7 + 1) {
    const Bytes piece = bytes.first(std::min(size, bytes.size()));
    feed(piece);
    bytes = bytes.subspan(piece.size());
  }
}

void append_message(net::Bytes& stream, Bytes message) {
  net::append_u32(stream, static_cast<std::uint32_t>(message.size()));
  net::append(stream, message);
}

/// The seeds are authentic frames under this key. None can be made without it.
template <bool encrypts>
net::FrameKey key() {
  return {.key = {}, .encrypts = encrypts};
}

template <bool encrypts>
bool read_frames(Bytes bytes) {
  net::FrameOpener opener(key<encrypts>());
  const auto frames = accepted([&] {
    std::size_t count = 0;
    in_pieces(bytes, [&](Bytes piece) {
      opener.feed(piece);
      while (const auto payload = opener.next()) {
        if (payload->size() > net::max_frame_payload) fail("a frame is too long");
        ++count;
      }
    });
    return count;
  });
  return frames && *frames > 0;
}

bool read_messages(Bytes bytes) {
  net::MessageReader reader;
  net::Bytes sent;
  const bool is_accepted = accepted([&] {
                             in_pieces(bytes, [&](Bytes piece) {
                               reader.feed(piece);
                               for (net::Bytes message; reader.next(message);) {
                                 append_message(sent, message);
                               }
                             });
                             return true;
                           }).has_value();
  if (sent.size() > bytes.size() || !std::ranges::equal(sent, bytes.first(sent.size()))) {
    fail("other messages arrive than were sent");
  }
  return is_accepted;
}

net::Bytes sealed(net::FrameSealer& sealer, Bytes payload) {
  net::SliceQueue slices;
  sealer.seal({payload}, slices);
  net::Bytes frame;
  for (const net::Slice& slice : slices.all()) net::append(frame, slice.bytes);
  return frame;
}

struct Ends {
  base::Fd here;
  base::Fd there;
};

/// Nothing written there finds no room.
Ends some_sockets() {
  int ends[2];
  constexpr int stream = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  if (::socketpair(AF_UNIX, stream, 0, ends) != 0) fail("no sockets");
  return {base::Fd(ends[0]), base::Fd(ends[1])};
}

/// Takes the written bytes from the kernel. Reads them again as whole messages of one stream.
template <bool encrypts>
std::optional<net::Bytes> taken_in(const Ends& ends) {
  ::shutdown(ends.here.get(), SHUT_WR);
  return accepted([&] {
    net::Intake intake(key<encrypts>());
    net::Bytes messages;
    while (intake.read(ends.there) > 0) {
      for (net::Parcel parcel; intake.next(parcel);) {
        net::append_u32(messages,
                        static_cast<std::uint32_t>(parcel.head.size() + parcel.body_bytes));
        net::append(messages, parcel.head);
        net::append(messages, parcel.body_span());
      }
    }
    return messages;
  });
}

/// The payloads that an authentic peer puts into frames. Each has its length in front, in one byte.
template <bool encrypts>
bool take_in(Bytes bytes) {
  constexpr std::size_t most_frames = 64;
  const Ends ends = some_sockets();
  net::FrameSealer sealer(key<encrypts>());
  net::Bytes stream;
  for (std::size_t frames = 0; !bytes.empty() && frames < most_frames; ++frames) {
    const auto size = std::min(std::to_integer<std::size_t>(bytes[0]), bytes.size() - 1);
    const Bytes payload = bytes.subspan(1, size);
    net::append(stream, payload);
    const net::Bytes frame = sealed(sealer, payload);
    if (::send(ends.here.get(), frame.data(), frame.size(), 0) != std::ssize(frame))
      fail("no room");
    bytes = bytes.subspan(1 + size);
  }
  const auto messages = taken_in<encrypts>(ends);
  if (!messages) return false;
  if (messages->size() > stream.size() ||
      !std::equal(messages->begin(), messages->end(), stream.begin())) {
    fail("other messages arrive than were sent");
  }
  return true;
}

/// A message of its own size of body, small or large, arrives as it was sent. The first two bytes
/// say where the body begins.
template <bool encrypts>
bool send_and_take_in(Bytes bytes) {
  if (bytes.size() < 2) return false;
  const Ends ends = some_sockets();
  const std::size_t at =
      std::to_integer<std::size_t>(bytes[0]) << 8 | std::to_integer<std::size_t>(bytes[1]);
  bytes = bytes.subspan(2, std::min(bytes.size() - 2, std::size_t{64} << 10));
  net::Outflow outflow(key<encrypts>());
  const Bytes head = bytes.first(std::min(at, bytes.size()));
  outflow.add(head, {bytes.subspan(head.size())});
  if (!outflow.write(ends.here) || !outflow.empty()) fail("no room");
  net::Bytes sent;
  append_message(sent, bytes);
  if (taken_in<encrypts>(ends) != sent) fail("another message arrives than was sent");
  return true;
}

/// A peer that is authentic may begin a message of the largest size.
constexpr std::size_t large = net::max_message_bytes + (std::size_t{1} << 20);

constexpr Decoder all[] = {{read_frames<false>},    {read_frames<true>},
                           {read_messages},         {take_in<false>, large},
                           {take_in<true>, large},  {send_and_take_in<false>},
                           {send_and_take_in<true>}};

template <bool encrypts>
net::Bytes some_frames() {
  net::FrameSealer sealer(key<encrypts>());
  net::Bytes wire;
  for (const char* text : {"one", "a second frame"}) {
    net::append(wire, sealed(sealer, net::as_bytes(text)));
  }
  return wire;
}

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  net::Bytes messages;
  for (const char* text : {"a message", "", "another"}) {
    append_message(messages, net::as_bytes(text));
  }
  // Three small messages in one frame, and a large one whose body comes in another.
  net::Bytes frames{static_cast<std::byte>(messages.size())};
  net::append(frames, messages);
  const net::Bytes large_message{std::byte{7}, std::byte{8}, {}, {}, {}, std::byte{1}, std::byte{2},
                                 std::byte{3}, std::byte{5}, {}, {}, {}, {},           {}};
  net::append(frames, large_message);
  net::Bytes long_message(40'000, std::byte{1});
  return {{0, some_frames<false>()},
          {1, some_frames<true>()},
          {2, messages},
          {3, frames},
          {4, frames},
          {5, messages},
          {5, long_message},
          {6, long_message}};
}

}  // namespace tutti::fuzz
