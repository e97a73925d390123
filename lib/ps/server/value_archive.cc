// A piece in a server's state, and on its way to another job.
#include <cstring>
#include <utility>

#include "base/own_tensor.h"
#include "ps/protocol/states.h"
#include "ps/server/value.h"

namespace tutti::ps {
namespace {

net::ConstBytes bytes_of(const Tensor& tensor) {
  return {tensor.as<const std::byte>(), tensor.bytes()};
}

std::optional<optimizer::State> state_in(net::ConstBytes bytes) {
  if (bytes.empty()) return std::nullopt;
  auto states = unpacked(bytes).states;
  if (states.empty()) return std::nullopt;
  return std::move(states.begin()->second);
}

}  // namespace

std::optional<Value::Content> Value::content() const {
  if (!stored_) return std::nullopt;
  Content content{stored_->shape, stored_->elements, {}};
  if (updater_ && !updater_->states().empty()) {
    content.state = updater_->states().begin()->second;
  }
  return content;
}

void Value::inherit(Content content) {
  stored_ = {content.shape, std::move(content.elements)};
  is_inherited_ = true;
  if (updater_) set_state(std::move(content.state));
}

void Value::save(ArchiveWriter& to) const {
  to.put(std::uint64_t{stored_.has_value()});
  if (stored_) {
    to.put_enum(stored_->dtype());
    to.put(stored_->shape);
    to.put(bytes_of(stored_->elements));
  }
  to.put(std::uint64_t{is_inherited_});
  // A state may be there without a value, if it was loaded before the value.
  const bool has_state = updater_ && !updater_->states().empty();
  to.put(has_state ? packed({.rule = "", .states = updater_->states()}) : net::Bytes());
}

void Value::load(ArchiveReader& from) {
  if (from.number(1) == 1) {
    const DType dtype = from.enumerator(DType::i64);
    const Shape shape = from.shape();
    const net::ConstBytes bytes = from.bytes();
    const std::size_t count = piece_of(shape).count();
    // This multiplies nothing, because a product of these numbers may be too large for its type.
    const std::size_t element = size_of(dtype);
    if (bytes.size() / element != count || bytes.size() % element != 0) {
      throw Error(ErrorCode::invalid_argument,
                  "a value in a server's state has another size than its shape says");
    }
    stored_ = {shape, base::own_tensor({static_cast<std::int64_t>(count)}, dtype)};
    if (count > 0) std::memcpy(stored_->elements.data(), bytes.data(), bytes.size());
  }
  is_inherited_ = from.number(1) == 1;
  auto state = state_in(from.bytes());
  if (state && updater_) set_state(std::move(state));
}

}  // namespace tutti::ps
