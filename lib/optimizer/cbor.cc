#include "optimizer/cbor.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

namespace tutti::optimizer {
namespace {

using nlohmann::json;

/// The kind of a part: the three highest bits of its first byte. Only parts of these kinds are
/// followed by anything.
enum class MajorType : std::uint8_t { bytes = 2, text = 3, array = 4, object = 5 };

/// Walks over the parts of a value. The parser calls itself for each part within another one, even
/// for a text within a text of unknown length. Without this check such parts could take all of the
/// stack.
class Walk {
 public:
  Walk(std::span<const std::uint8_t> bytes, std::size_t deepest)
      : rest_(bytes), deepest_(deepest) {}

  void check() {
    to_come_.push_back(1);
    while (!to_come_.empty()) {
      if (to_come_.back() == 0) {
        to_come_.pop_back();
      } else {
        --to_come_.back();
        read_part();
      }
    }
  }

 private:
  void read_part() {
    const std::uint8_t head = take(1).front();
    const MajorType kind{static_cast<std::uint8_t>(head >> 5U)};
    const bool has_length = kind >= MajorType::bytes && kind <= MajorType::object;
    const unsigned low = head & 0x1fU;
    if (has_length && low == 0x1f) refuse("a part of them does not say how long it is");
    const std::uint64_t number =
        low < 24 || low > 27 ? low : read_number(std::size_t{1} << (low - 24));
    if (!has_length) return;
    if (kind == MajorType::bytes || kind == MajorType::text) {
      take(number);
    } else {
      open(number, kind == MajorType::object ? 2 : 1);
    }
  }
  void open(std::uint64_t count, std::uint64_t parts_each) {
    if (to_come_.size() > deepest_) {
      refuse(fmt::format("they are nested more than {} deep", deepest_));
    }
    check_left(count);
    to_come_.push_back(count * parts_each);
  }
  std::uint64_t read_number(std::size_t bytes) {
    std::uint64_t number = 0;
    for (const std::uint8_t byte : take(bytes)) number = number << 8U | byte;
    return number;
  }
  std::span<const std::uint8_t> take(std::uint64_t bytes) {
    check_left(bytes);
    const auto taken = rest_.first(static_cast<std::size_t>(bytes));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  /// Each part takes at least one byte.
  void check_left(std::uint64_t bytes) const {
    if (bytes > rest_.size()) refuse("they are cut short");
  }
  [[noreturn]] static void refuse(const std::string& why) { throw std::invalid_argument(why); }

  std::span<const std::uint8_t> rest_;
  const std::size_t deepest_;
  /// The parts still to come: of each array and object that is open, and of the whole.
  std::vector<std::uint64_t> to_come_;
};

}  // namespace

json read_cbor(std::span<const std::uint8_t> bytes, std::size_t deepest) {
  Walk(bytes, deepest).check();
  return json::from_cbor(bytes);
}

}  // namespace tutti::optimizer
