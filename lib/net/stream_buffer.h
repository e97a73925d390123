#pragma once
#include "net/bytes.h"

namespace tutti::net {

/// The bytes of a stream that have arrived and are not used yet. `feed` moves them to the front, so
/// use all complete parts before feeding more.
class StreamBuffer {
 public:
  void feed(ConstBytes bytes) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
    append(bytes_, bytes);
  }
  /// The bytes are valid until the next `feed`.
  ConstBytes rest() const { return ConstBytes(bytes_).subspan(used_); }
  void use(std::size_t count) { used_ += count; }
  bool empty() const { return used_ == bytes_.size(); }

 private:
  Bytes bytes_;
  std::size_t used_ = 0;
};

}  // namespace tutti::net
