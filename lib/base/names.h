#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tutti::base {

/// The known name nearest to a misspelt one (edit distance), or empty when none is near.
std::string_view nearest(std::string_view misspelt, std::span<const std::string_view> known);

/// ", did you mean 'x'?" or nothing.
std::string suggestion(std::string_view misspelt, std::span<const std::string_view> known);

/// "64K", "2M", "1000": with K, M, G or T where that is exact.
std::string bytes_text(std::size_t bytes);

}  // namespace tutti::base
