#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/export.h"
#include "tutti/key.h"

namespace tutti {

enum class ErrorCode : std::uint8_t {
  /// The call itself is wrong. The store has submitted nothing.
  invalid_argument = 1,
  /// This store type or this build does not offer the call. The message says what to use instead.
  unsupported,
  /// Ranks disagree about a shape, dtype, operation, root, option or version. All ranks get the
  /// same error. A store that exists already lives on.
  mismatch,
  /// The key is already in flight, or stands twice in one call.
  duplicate_key,
  /// Some ranks did not make their call in time. The store lives on.
  timeout,
  /// A rank has died or hangs. The store has ended; the process goes on.
  peer_lost,
  /// The store is closing, or a rank that the call needs has left.
  aborted,
  /// An invariant is broken, or a call of the system or of MPI has failed. The store has ended,
  /// unless the comment of the method says that it lives on.
  internal,
};

/// The code's name: "invalid_argument", "unsupported", ...
TUTTI_EXPORT std::string_view name(ErrorCode code);

/// The one type of exceptions that tutti throws. The message names the key and the ranks, and says
/// what each rank did and what to do.
///
/// The message is one line. Characters of `message` that are not printable (newlines, null
/// characters, bytes that are not UTF-8) are escaped. If the message is longer than 4 KiB, its
/// middle is left out.
class TUTTI_EXPORT Error : public std::runtime_error {
 public:
  /// The key and the ranks that an error is about, as data.
  struct Subject {
    std::optional<Key> key{};
    std::vector<int> ranks{};
  };

  Error(ErrorCode code, const std::string& message);
  Error(ErrorCode code, const std::string& message, Subject subject);
  ErrorCode code() const noexcept { return code_; }
  /// The key that the error is about; lives as long as the error. Null if the error is about no key
  /// or about several: a lost rank, for example, fails all keys in flight.
  const Key* key() const noexcept;
  /// The ranks that caused the error, in ascending order; the list lives as long as the error:
  /// - `peer_lost`, `aborted`: the ranks that are lost or have left;
  /// - `timeout`: the ranks that did not make their call;
  /// - `mismatch`: the ranks that said something else than the lowest rank.
  ///
  /// Empty if no rank caused it, or if this rank's own call was wrong.
  std::span<const int> ranks() const noexcept;

 private:
  ErrorCode code_;
  std::shared_ptr<const Subject> subject_;  // shared: an exception's copy must not fail
};

}  // namespace tutti
