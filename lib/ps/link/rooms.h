#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/mapping.h"
#include "ps/protocol/messages.h"

namespace tutti::ps {

/// The most memory that a worker and a server of its machine share. A page takes memory only once
/// it is used.
inline constexpr std::size_t shared_bytes = std::size_t{128} << 20;
/// If the elements have fewer bytes, they travel in the message.
inline constexpr std::size_t least_room_bytes = std::size_t{16} << 10;

/// Manages the rooms of the shared memory. It takes the lowest place that fits, so that the same
/// pages are used again.
class Rooms {
 public:
  /// Throws `internal` if the file cannot be mapped, or has another size than `bytes`.
  explicit Rooms(base::Fd file, std::size_t bytes = shared_bytes);

  /// Takes a room. Returns nothing if no room of this size is free, or if there is no memory for
  /// it. Then elements travel in the message.
  std::optional<Room> take(std::size_t bytes);
  void give_back(const Room& room);
  std::span<std::byte> at(const Room& room) const;

 private:
  bool reserve(std::size_t end);

  base::Fd file_;
  std::shared_ptr<base::Mapping> memory_;
  std::map<std::uint64_t, std::uint64_t> free_;  ///< bytes, by offset
  std::size_t reserved_ = 0;                     ///< from the beginning of the file
};

}  // namespace tutti::ps
