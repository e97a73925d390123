#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "ps/protocol/messages.h"
#include "tutti/shard.h"

/// Encodes gradients in fewer bytes on their way to servers. Values on their way back are never
/// compressed.
namespace tutti::ps {

/// Reads the arguments of `KVStore::set_gradient_compression`. Throws `unsupported` for an unknown
/// kind, and `invalid_argument` for an unusable threshold.
Compression compression_named(std::string_view kind, double threshold);

/// Whether the encoding can carry elements of this type.
bool can_carry(Encoding encoding, DType dtype);
/// Returns the number of bytes that this many elements take.
std::size_t encoded_bytes(Encoding encoding, DType dtype, std::size_t count);

/// Decodes a contribution of this many elements, into its dtype.
Tensor decoded(const Contribution& said, std::size_t count);

/// The worker's side. It keeps a residual for each key, the part that has not been sent yet, and
/// adds it to the next gradient.
class Compressor {
 public:
  /// Compresses the elements of a contribution to this shard of the value. It leaves them unchanged
  /// if they are no sum of gradients, if the encoding cannot carry them, or if the encoding is one
  /// bit and one of them is not finite. The memory to which the contribution then refers is valid
  /// until the next call.
  void compress(Contribution& said, const Compression& how, const Shard& piece);

 private:
  float* residual(const Contribution& said, const Shard& piece);
  bool quantise(const Contribution& said, const Compression& how, const Shard& piece);

  std::map<Key, std::vector<float>> residuals_;  ///< of the whole value
  std::vector<std::byte> encoded_;
};

}  // namespace tutti::ps
