#pragma once
#include <memory>
#include <utility>

#include "net/bytes.h"

namespace tutti::net {

/// Bytes on their way to a socket, which stay where they are until they are written.
struct Slice {
  ConstBytes bytes;
  std::shared_ptr<const void> keeper{};  ///< keeps them; none: whoever queued them does
};

/// A slice that keeps its bytes itself.
inline Slice kept(Bytes bytes) {
  const auto memory = std::make_shared<const Bytes>(std::move(bytes));
  return {*memory, memory};
}

}  // namespace tutti::net
