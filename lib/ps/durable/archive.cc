#include "ps/durable/archive.h"

#include <array>
#include <utility>

#include "ps/protocol/wire.h"

namespace tutti::ps {
namespace {

constexpr std::size_t number_bytes = 8;

[[noreturn]] void refuse_archive(const char* what) {
  throw Error(ErrorCode::invalid_argument,
              std::string("no server writes its state like this: ") + what);
}

}  // namespace

void ArchiveWriter::put(std::uint64_t number) {
  net::append_u64(bytes_, number);
}

void ArchiveWriter::put(net::ConstBytes bytes) {
  put(std::uint64_t{bytes.size()});
  net::append(bytes_, bytes);
}

void ArchiveWriter::put(const PieceName& name) {
  put(std::uint64_t{name.key.is_integer()});
  if (name.key.is_integer()) {
    put(static_cast<std::uint64_t>(name.key.integer()));
  } else {
    put(name.key.string());
  }
  put(std::uint64_t{name.index});
  put(std::uint64_t{name.pieces});
}

void ArchiveWriter::put(const Shape& shape) {
  put(std::uint64_t{shape.dims().size()});
  for (const std::int64_t dim : shape.dims()) put(static_cast<std::uint64_t>(dim));
}

void ArchiveWriter::put(const std::optional<Failure>& failure) {
  put(encode(Answer{.sequence = 0, .failure = failure}));
}

net::ConstBytes ArchiveReader::take(std::uint64_t count) {
  if (count > rest_.size()) refuse_archive("it ends too early");
  const net::ConstBytes taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

std::uint64_t ArchiveReader::number() {
  return net::load_u64(take(number_bytes).data());
}

std::uint64_t ArchiveReader::number(std::uint64_t most) {
  const std::uint64_t value = number();
  if (value > most) refuse_archive("a number is out of range");
  return value;
}

net::ConstBytes ArchiveReader::bytes() {
  return take(number());
}

net::Bytes ArchiveReader::copy() {
  const net::ConstBytes here = bytes();
  return {here.begin(), here.end()};
}

PieceName ArchiveReader::piece_name() {
  PieceName name;
  if (number(1) == 1) {
    name.key = static_cast<std::int64_t>(number());
  } else {
    std::string key = text();
    if (key.size() > Key::max_bytes) refuse_archive("a key is too long");
    name.key = std::move(key);
  }
  name.index = static_cast<std::uint32_t>(number(UINT32_MAX));
  name.pieces = static_cast<std::uint32_t>(number(most_pieces));
  if (name.index >= name.pieces) refuse_archive("a piece beyond the last");
  return name;
}

Shape ArchiveReader::shape() {
  std::array<std::int64_t, Shape::max_rank> dims{};
  const std::uint64_t rank = number(Shape::max_rank);
  for (std::size_t i = 0; i < rank; ++i) dims.at(i) = static_cast<std::int64_t>(number());
  return Shape(std::span<const std::int64_t>(dims.data(), rank));
}

std::optional<Failure> ArchiveReader::failure() {
  return decode_answer(copy()).failure;
}

void ArchiveReader::finish() const {
  if (!rest_.empty()) refuse_archive("something follows its end");
}

}  // namespace tutti::ps
