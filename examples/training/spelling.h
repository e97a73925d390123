#pragma once
#include <span>
#include <string>

namespace training {

/// The known word with the fewest edits from this one; empty when even that is another word.
std::string nearest(const std::string& word, std::span<const std::string> known);

}  // namespace training
