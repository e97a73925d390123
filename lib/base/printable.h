#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::base {

/// The longest line of an error or of the log, in bytes.
inline constexpr std::size_t longest_line = 4096;

/// Makes text from outside (keys, paths, addresses) a safe part of one line. It escapes unprintable
/// characters (control characters, line separators, characters that change the direction of
/// writing) and bytes that are not UTF-8, as "\n", "\x1b" or "\u202e". Printable text stays
/// unchanged. If `text` has more than `most` bytes, the middle is left out, and its size is given.
std::string printable(std::string_view text, std::size_t most = longest_line);

/// Puts a name in quotes: "'fc1_weight'". It escapes like `printable`, and also escapes quotes and
/// backslashes in the name, so that the name cannot end the quotes. If the name has more than 128
/// bytes, the middle is left out: "'encoder...weight' (1024 bytes)".
std::string quoted(std::string_view name);

}  // namespace tutti::base
