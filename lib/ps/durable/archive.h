#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "net/bytes.h"
#include "ps/protocol/messages.h"

/// The form in which a server writes its state: numbers, and bytes with their length in front.
namespace tutti::ps {

class ArchiveWriter {
 public:
  void put(std::uint64_t number);
  void put(net::ConstBytes bytes);
  void put(const std::string& text) { put(net::as_bytes(text)); }
  void put(const PieceName& name);
  void put(const Shape& shape);
  void put(const std::optional<Failure>& failure);
  template <typename Enum>
  void put_enum(Enum value) {
    put(static_cast<std::uint64_t>(value));
  }

  net::Bytes take() { return std::move(bytes_); }

 private:
  net::Bytes bytes_;
};

/// Throws `invalid_argument` if no writer makes such bytes. Reads nothing outside of them.
class ArchiveReader {
 public:
  explicit ArchiveReader(net::ConstBytes bytes) : rest_(bytes) {}

  std::uint64_t number();
  /// Throws if the number is larger than `most`.
  std::uint64_t number(std::uint64_t most);
  net::ConstBytes bytes();
  /// Does the same as `bytes`, and copies the bytes to memory with the alignment that decoding
  /// needs.
  net::Bytes copy();
  std::string text() { return std::string(net::as_text(bytes())); }
  PieceName piece_name();
  Shape shape();
  std::optional<Failure> failure();
  template <typename Enum>
  Enum enumerator(Enum last) {
    return static_cast<Enum>(number(static_cast<std::uint64_t>(last)));
  }
  /// Throws unless everything has been read.
  void finish() const;

 private:
  net::ConstBytes take(std::uint64_t count);

  net::ConstBytes rest_;
};

}  // namespace tutti::ps
