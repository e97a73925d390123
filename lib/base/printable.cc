#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::base {
namespace {

constexpr std::size_t longest_name = 128;
constexpr std::string_view left_out = "...";

/// The most bytes of a UTF-8 character after its first byte. A cut moves by no more.
constexpr std::size_t most_cut_off = 3;

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

/// The first `size` bytes of `text`, or up to 3 fewer, so that the last character is whole.
std::string_view head(std::string_view text, std::size_t size) {
  const std::size_t least = size - most_cut_off;
  while (size > least && continues_character(text[size])) --size;
  return text.substr(0, size);
}

/// The last `size` bytes of `text`, or up to 3 fewer, so that the first character is whole.
std::string_view tail(std::string_view text, std::size_t size) {
  const std::size_t least = size - most_cut_off;
  while (size > least && continues_character(text[text.size() - size])) --size;
  return text.substr(text.size() - size);
}

/// Escapes the characters that fmt escapes in a string, because fmt knows which are printable.
/// Leaves the characters of `kept` unchanged.
std::string escaped(std::string_view text, std::string_view kept) {
  std::string result;
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find_first_of(kept), text.size());
    const std::string in_quotes = fmt::format("{:?}", text.substr(0, plain));
    result.append(in_quotes, 1, in_quotes.size() - 2);
    if (plain < text.size()) result += text[plain];
    text.remove_prefix(std::min(plain + 1, text.size()));
  }
  return result;
}

/// fmt puts strings into double quotes. A name stands in single quotes, so these are escaped, and
/// double ones are not.
std::string escaped_name(std::string_view name) {
  std::string result;
  for (const char c : escaped(name, "\"")) {
    if (c == '\'') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  constexpr std::string_view kept = "\"\\";
  if (text.size() <= most) return escaped(text, kept);
  return fmt::format("{}{}{} ({} bytes)", escaped(head(text, most / 2), kept), left_out,
                     escaped(tail(text, most / 2), kept), text.size());
}

std::string quoted(std::string_view name) {
  if (name.size() <= longest_name) return fmt::format("'{}'", escaped_name(name));
  return fmt::format("'{}{}{}' ({} bytes)", escaped_name(head(name, longest_name / 2)), left_out,
                     escaped_name(tail(name, longest_name / 2)), name.size());
}

}  // namespace tutti::base
