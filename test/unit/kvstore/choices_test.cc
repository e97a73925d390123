#include <algorithm>
#include <catch2/catch.hpp>

#include "../errors.h"
#include "kvstore/environment.h"
#include "tutti/info.h"

using namespace tutti;

namespace {

/// "4M (default)"
std::string said(const std::vector<Choice>& choices, const std::string& name) {
  const auto at = std::find_if(choices.begin(), choices.end(),
                               [&](const Choice& choice) { return choice.name == name; });
  return at == choices.end() ? "nothing" : at->value + " (" + at->origin + ")";
}

}  // namespace

TEST_CASE("a choice says whether default, variable or program made it") {
  Options used;
  CHECK(said(choices_of(used, {}, {}), "replay") == "on (default)");
  // Left to the store, which knows how many nodes there are.
  CHECK(said(choices_of(used, {}, {}), "part size") == "nothing");
  CHECK(said(choices_of(used, {{"part size", "4M", "job: 1 node"}}, {}), "part size") ==
        "4M (job: 1 node)");
  used.part_bytes = 1 << 20;
  CHECK(said(choices_of(used, {}, {}), "part size") == "1M (program)");
  CHECK(said(choices_of(used, {}, {{"TUTTI_PART_BYTES", "1024K"}}), "part size") ==
        "1M (TUTTI_PART_BYTES)");
  CHECK(said(choices_of(used, {}, {{"TUTTI_PART_BYTES", "8M"}}), "part size") == "1M (program)");
}

TEST_CASE("a choice that is turned off is described in words") {
  Options used;
  used.fusion_bytes = 0;
  used.replay = false;
  const auto choices = choices_of(used, {}, {});
  CHECK(said(choices, "fusion threshold") == "no fusion (program)");
  CHECK(said(choices, "replay") == "off (program)");
}

TEST_CASE("a choice of a session without an origin of its own has the origin of the slice size") {
  Options used;
  used.slice_bytes = 1 << 16;
  const std::vector<Choice> of_session{{"slice size", "64K", ""},
                                       {"shared cache", "32M", "machine"}};
  const auto choices = choices_of(used, of_session, {{"TUTTI_SLICE_BYTES", "64K"}});
  CHECK(said(choices, "slice size") == "64K (TUTTI_SLICE_BYTES)");
  CHECK(said(choices, "shared cache") == "32M (machine)");
}

TEST_CASE(
    "the most a rank holds: its part of the staging, which ranks share, and what is its own") {
  Options options;
  options.slice_bytes = 128 << 10;
  // (L+1) ranks' chunks of L slices, two of each, over L ranks: 2 (L+1) slices of 128 KiB a rank.
  const auto staging = [](std::uint64_t ranks) { return 2 * (ranks + 1) * (128 << 10); };
  const auto rest = [&](int ranks) {
    return most_buffer_bytes(options, ranks) - staging(static_cast<std::uint64_t>(ranks));
  };
  // Five small messages of 256 KiB, rings of 64 KiB, flags.
  constexpr std::uint64_t fixed = (5 * 256 + 2 * 64) << 10;
  CHECK(rest(1) > fixed);
  CHECK(rest(1) < fixed + (32 << 10));
  // If ranks share processors, they also share four results of small messages.
  constexpr std::uint64_t shared = 4 * (256 << 10) / 4;
  CHECK(rest(4) > fixed + shared);
  CHECK(rest(4) < fixed + shared + (32 << 10));
}

TEST_CASE("with several nodes a rank holds more, and jobs that cannot be are refused") {
  const Options options;
  CHECK(most_buffer_bytes(options, 1, 8) > most_buffer_bytes(options, 1, 1));
  CHECK(most_buffer_bytes(options, 4, 2) > most_buffer_bytes(options, 4, 1));
  CHECK_THROWS_AS(most_buffer_bytes(options, 0), Error);
  CHECK_THROWS_AS(most_buffer_bytes(options, 1 << 12, 1 << 12), Error);
}
