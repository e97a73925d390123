#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tutti::base {

/// The known name that is most similar to a misspelt one (edit distance). Empty if none is similar.
std::string_view nearest(std::string_view misspelt, std::span<const std::string_view> known);

/// Returns ", did you mean 'x'?", or nothing.
std::string suggestion(std::string_view misspelt, std::span<const std::string_view> known);

/// Returns text such as "64K", "2M" or "1000": with K, M, G or T if that is exact.
std::string bytes_text(std::size_t bytes);

}  // namespace tutti::base
