#pragma once
#include <CLI/App.hpp>

namespace tutti::bench {

/// `app.parse`; of words that it does not know it says what was meant. Throws CLI::ParseError.
void parse(CLI::App& app, int argc, const char* const* argv);

}  // namespace tutti::bench
