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
  invalid_argument = 1,  ///< the call itself is wrong; nothing was submitted
  unsupported,           ///< this store type or build does not offer it; the text says what does
  mismatch,              ///< ranks disagree (shape, dtype, op, root, options, version); same on all
  duplicate_key,         ///< the key is in flight already, or stands twice in one call
  timeout,               ///< some ranks never submitted the key; the store lives on
  peer_lost,             ///< a rank died or hangs; terminal for the store, not for the process
  aborted,               ///< the store is shutting down, or a rank that is needed has left
  internal,              ///< a broken invariant or a failed system or MPI call; terminal
};

/// "invalid_argument", "unsupported", ...
TUTTI_EXPORT std::string_view name(ErrorCode code);

/// The one exception type of tutti. The message names the key, the ranks, what each said and what
/// to do. It is one line: what is not printable in `message` (a newline, a null character, what is
/// not UTF-8) is escaped, and of more than 4 KiB the middle is left out.
class TUTTI_EXPORT Error : public std::runtime_error {
 public:
  /// What an error is about, as data.
  struct Subject {
    std::optional<Key> key{};
    std::vector<int> ranks{};
  };

  Error(ErrorCode code, const std::string& message);
  Error(ErrorCode code, const std::string& message, Subject subject);
  ErrorCode code() const noexcept { return code_; }
  /// The key that the error is about. Null when that is no key or more than one: a lost rank for
  /// example fails all keys in flight. Lives as long as the error.
  const Key* key() const noexcept;
  /// The ranks that caused it, ascending: those that are lost or have left, that did not come
  /// (`timeout`), or that said something else than the lowest rank (`mismatch`). Empty when no
  /// rank did, or when this rank itself called wrongly. Lives as long as the error.
  std::span<const int> ranks() const noexcept;

 private:
  ErrorCode code_;
  std::shared_ptr<const Subject> subject_;  // shared: an exception's copy must not fail
};

}  // namespace tutti
