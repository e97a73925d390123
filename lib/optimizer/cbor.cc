#include "optimizer/cbor.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tutti::optimizer {
namespace {

using nlohmann::json;

/// Puts a value together as its parts are read. The parser calls itself for each array and object,
/// so that one within another without end would take all of the stack.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(std::size_t deepest) : deepest_(deepest) {}

  json take() { return std::move(whole_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(json::binary_t& value) override { return add(std::move(value)); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool end_object() override { return close(); }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    throw std::invalid_argument(error.what());
  }

 private:
  json& placed(json value) {
    if (open_.empty()) return whole_ = std::move(value);
    json& in = *open_.back();
    if (in.is_object()) return in[key_] = std::move(value);
    in.push_back(std::move(value));
    return in.back();
  }
  bool add(json value) {
    placed(std::move(value));
    return true;
  }
  bool open(json empty) {
    if (open_.size() == deepest_) {
      throw std::invalid_argument(fmt::format("they are nested more than {} deep", deepest_));
    }
    open_.push_back(&placed(std::move(empty)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::size_t deepest_;
  json whole_;
  std::vector<json*> open_;  ///< from the outermost on; who has more to come does not move
  std::string key_;          ///< of the value that comes next
};

}  // namespace

json read_cbor(std::span<const std::uint8_t> bytes, std::size_t deepest) {
  Builder builder(deepest);
  json::sax_parse(bytes.begin(), bytes.end(), &builder, json::input_format_t::cbor);
  return builder.take();
}

}  // namespace tutti::optimizer
