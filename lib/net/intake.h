#pragma once
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "net/frame.h"

namespace tutti::net {

/// A message that has arrived. A large one is in two parts, as it was sent. Its body stays where it
/// was received, and the receiver may keep it there.
struct Parcel {
  Bytes head{};
  std::shared_ptr<std::byte> body{};  ///< aligned to a cache line
  std::size_t body_bytes = 0;

  ConstBytes body_span() const { return {body.get(), body_bytes}; }
};

/// Makes messages of the bytes that arrive on a connection. `Outflow` describes the content of a
/// frame.
class Intake {
 public:
  explicit Intake(const FrameKey& key) : opener_(key) {}

  /// Reads once, and returns the result of `::readv`. Throws `internal` for bytes that are not
  /// authentic or are no message. Afterwards it cannot be used.
  ssize_t read(const base::Fd& socket);
  /// Whether the last read got all bytes that were there.
  bool is_drained() const { return drained_; }
  /// Takes the next message. Returns false if none is complete. Uses the memory of the former
  /// message in `parcel` again.
  bool next(Parcel& parcel);
  std::uint64_t frames() const { return frames_; }

 private:
  Parcel& add();
  void take(ConstBytes payload);
  void begin_large(ConstBytes head, std::size_t body_bytes);
  void take_rest();
  ssize_t read_body(const base::Fd& socket);
  void add_to_body(std::size_t bytes);
  std::size_t body_frame_bytes() const;

  FrameOpener opener_;
  std::uint64_t frames_ = 0;
  bool drained_ = false;
  /// The complete ones are from `first_` to `end_`; the others keep memory for later ones.
  std::vector<Parcel> complete_;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
  /// The large message under way: how much of its body has been checked, and the frame that is
  /// received right behind the checked part.
  Parcel large_;
  std::size_t checked_ = 0;
  std::array<std::byte, frame_header_bytes> header_{};
  std::size_t received_ = 0;  ///< of the frame, its header included
};

}  // namespace tutti::net
