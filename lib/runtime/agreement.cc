#include "runtime/agreement.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/printable.h"
#include "reduce/reduce.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace tutti::runtime {
namespace {

/// Returns "0-2, 5" for {0, 1, 2, 5}.
std::string ranges(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (end - i > 1) text += fmt::format("-{}", ranks[end - 1]);
    i = end;
  }
  return text;
}

/// The text of a rank with another version of tutti may not even be JSON.
Facts unpack(const std::string& packed, std::size_t rank) {
  try {
    return nlohmann::json::parse(packed).get<Facts>();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::mismatch,
                fmt::format("rank {} sent options that version {} of tutti cannot read, so it "
                            "runs another version; start the same version on every rank",
                            rank, version()),
                {.key = {}, .ranks = {static_cast<int>(rank)}});
  }
}

std::string size_text(const std::optional<std::size_t>& bytes) {
  return bytes ? std::to_string(*bytes) : "auto";
}

}  // namespace

Facts facts_to_agree_on(const Options& options) {
  return {
      {"tutti version", version()},
      {"element kernels", std::string(reduce::simd_level())},
      {"reproducible (TUTTI_REPRODUCIBLE)", std::to_string(options.reproducible)},
      {"encrypt (TUTTI_ENCRYPT)", std::to_string(options.encrypt)},
      {"key_timeout (TUTTI_TIMEOUT_SECONDS)", fmt::format("{} ms", options.key_timeout.count())},
      {"timeline (TUTTI_TIMELINE)", options.timeline},
      {"replay (TUTTI_REPLAY)", std::to_string(options.replay)},
      {"fusion_bytes (TUTTI_FUSION_BYTES)", size_text(options.fusion_bytes)},
      {"part_bytes (TUTTI_PART_BYTES)", size_text(options.part_bytes)},
      {"slice_bytes (TUTTI_SLICE_BYTES)", std::to_string(options.slice_bytes)},
  };
}

std::string pack(const Facts& facts) {
  return nlohmann::json(facts).dump();
}

void check_equal(const Facts& mine, const std::vector<std::string>& everyone) {
  std::vector<Facts> all;
  all.reserve(everyone.size());
  for (const std::string& packed : everyone) all.push_back(unpack(packed, all.size()));
  std::string differences;
  std::set<int> others;  // the ranks that differ from rank 0 in something
  for (std::size_t fact = 0; fact < mine.size(); ++fact) {
    std::map<std::string, std::vector<int>> said;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const bool same_list = fact < all[rank].size() && all[rank][fact].first == mine[fact].first;
      said[same_list ? all[rank][fact].second : "nothing"].push_back(static_cast<int>(rank));
    }
    if (said.size() < 2) continue;
    differences += fmt::format("{}{}:", differences.empty() ? "" : "; ", mine[fact].first);
    for (const auto& [value, ranks] : said) {
      if (ranks.front() != 0) others.insert(ranks.begin(), ranks.end());
      differences += fmt::format(" {} on rank{} {},", base::printable(value),
                                 ranks.size() > 1 ? "s" : "", ranges(ranks));
    }
    differences.pop_back();
  }
  if (differences.empty()) return;
  throw Error(ErrorCode::mismatch,
              "all ranks must create a store with the same version and options, but they differ "
              "in " +
                  differences,
              {.key = {}, .ranks = {others.begin(), others.end()}});
}

}  // namespace tutti::runtime
