#include "base/names.h"

#include <catch2/catch.hpp>

using tutti::base::nearest;
using tutti::base::suggestion;

static constexpr std::string_view known[] = {"TUTTI_LOG", "TUTTI_REPLAY", "TUTTI_FUSION_BYTES"};

TEST_CASE("a misspelt name finds the nearest known one") {
  CHECK(nearest("TUTTI_REPLY", known) == "TUTTI_REPLAY");
  CHECK(nearest("TUTTI_FUSION_BYTE", known) == "TUTTI_FUSION_BYTES");
  CHECK(suggestion("TUTTI_LGO", known) == ", did you mean 'TUTTI_LOG'?");
}

TEST_CASE("a name near nothing gets no suggestion") {
  CHECK(suggestion("COMPLETELY_DIFFERENT", known).empty());
}
