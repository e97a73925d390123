#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::base {

/// Bytes of a line of text: of an error, or of the log.
inline constexpr std::size_t longest_line = 4096;

/// Text that others have a hand in, as a part of one line: what is not printable (control
/// characters, line separators, what turns the direction of writing) and what is not UTF-8 is
/// escaped, as "\n", "\x1b" or "\u202e". Of more than `most` bytes the middle is left out, and it
/// is said how many they were. What is printable already stays as it is.
std::string printable(std::string_view text, std::size_t most = longest_line);

/// A name in quotes, "'fc1_weight'": as `printable`, and quotes and backslashes in it are escaped,
/// so that it cannot end early. Of more than 128 bytes the middle is left out:
/// "'encoder...weight' (1024 bytes)".
std::string quoted(std::string_view name);

}  // namespace tutti::base
