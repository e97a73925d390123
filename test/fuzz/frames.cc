#include "net/frame.h"

#include <algorithm>

#include "fuzz/decoders.h"
#include "net/message_stream.h"

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
                                 net::append_message(sent, message);
                               }
                             });
                             return true;
                           }).has_value();
  if (sent.size() > bytes.size() || !std::ranges::equal(sent, bytes.first(sent.size()))) {
    fail("other messages arrive than were sent");
  }
  return is_accepted;
}

constexpr Decoder all[] = {{read_frames<false>}, {read_frames<true>}, {read_messages}};

template <bool encrypts>
net::Bytes some_frames() {
  net::FrameSealer sealer(key<encrypts>());
  net::Bytes wire;
  sealer.seal(net::as_bytes("one"), wire);
  sealer.seal(net::as_bytes("a second frame"), wire);
  return wire;
}

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  net::Bytes messages;
  for (const char* text : {"a message", "", "another"}) {
    net::append_message(messages, net::as_bytes(text));
  }
  return {{0, some_frames<false>()}, {1, some_frames<true>()}, {2, messages}};
}

}  // namespace tutti::fuzz
