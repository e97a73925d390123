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

/// The corpus has authentic frames under this key. None can be made without it.
template <bool encrypts>
void read_frames(Bytes bytes) {
  net::FrameOpener opener({.key = {}, .encrypts = encrypts});
  accepted([&] {
    in_pieces(bytes, [&](Bytes piece) {
      opener.feed(piece);
      while (const auto payload = opener.next()) {
        if (payload->size() > net::max_frame_payload) std::abort();
      }
    });
    return true;
  });
}

void read_messages(Bytes bytes) {
  net::MessageReader reader;
  std::size_t read = 0;
  accepted([&] {
    in_pieces(bytes, [&](Bytes piece) {
      reader.feed(piece);
      for (net::Bytes message; reader.next(message);) read += message.size();
    });
    return true;
  });
  if (read > bytes.size()) std::abort();
}

constexpr Decoder all[] = {read_frames<false>, read_frames<true>, read_messages};

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

}  // namespace tutti::fuzz
