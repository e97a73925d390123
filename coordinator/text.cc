#include "coordinator/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

namespace tutti::coordinator {
namespace {

/// A field in which signatures can differ, and how to word it.
struct Field {
  std::string_view plural;
  std::string_view verb;  ///< of one rank; "have" and the like follow from it
  std::string_view verbs;
  std::string (*value)(const Signature&);
};

// The fields are in order of how much a difference explains. If the kinds differ, the other fields
// mean nothing.
constexpr Field fields[] = {
    {"calls", "calls", "call", [](const Signature& s) { return std::string(name(s.kind)); }},
    {"dtypes", "has", "have", [](const Signature& s) { return std::string(name(s.dtype)); }},
    {"matrices of counts", "passes one of hash", "pass one of hash",
     [](const Signature& s) { return fmt::format("{:016x}", s.counts); }},
    {"shapes", "has", "have", [](const Signature& s) { return s.shape.describe(); }},
    {"operations", "asks for", "ask for",
     [](const Signature& s) { return std::string(name(s.op)); }},
    {"roots", "names rank", "name rank", [](const Signature& s) { return std::to_string(s.root); }},
    {"device kinds", "has", "have",
     [](const Signature& s) { return std::string(s.device == Device::Kind::cpu ? "cpu" : "gpu"); }},
    {"wire formats", "asks for", "ask for",
     [](const Signature& s) { return std::string(name(s.wire)); }},
};

/// Groups of ranks that have the same value in one field, in the order of their lowest ranks.
using Groups = std::vector<std::pair<std::string, std::vector<int>>>;

Groups group(const Field& field, const std::vector<Said>& said) {
  Groups groups;
  for (const Said& one : said) {
    const std::string value = field.value(one.signature);
    auto at = std::find_if(groups.begin(), groups.end(),
                           [&](const auto& known) { return known.first == value; });
    if (at == groups.end()) at = groups.insert(at, {value, {}});
    at->second.insert(at->second.end(), one.ranks.begin(), one.ranks.end());
  }
  for (auto& [value, ranks] : groups) std::sort(ranks.begin(), ranks.end());
  std::sort(groups.begin(), groups.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  return groups;
}

constexpr std::string_view barrier_name = "tutti:barrier";

}  // namespace

Call barrier_call() {
  return {.key = barrier_name,
          .signature = {.kind = CollectiveKind::barrier, .shape = Shape{0}},
          .priority = std::numeric_limits<int>::max()};
}

bool is_barrier(const Key& key) {
  return !key.is_integer() && key.string() == barrier_name;
}

std::string name_of(const Key& key) {
  return is_barrier(key) ? "a barrier" : key.describe();
}

std::string named(const Key& key) {
  return is_barrier(key) ? "barrier" : "key " + key.describe();
}

std::string rank_list(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    runs.push_back(end - i == 1 ? std::to_string(ranks[i])
                                : fmt::format("{}-{}", ranks[i], ranks[end - 1]));
    i = end;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i > 0) text += i + 1 == runs.size() ? " and " : ", ";
    text += runs[i];
  }
  return text;
}

std::string seconds(Time time) {
  const double count = std::chrono::duration<double>(time).count();
  return count < 10 ? fmt::format("{:.3g} s", count) : fmt::format("{:.0f} s", count);
}

std::string some_of(const std::vector<std::string>& names, std::size_t shown) {
  const std::span<const std::string> first(names.data(), std::min(shown, names.size()));
  if (first.size() == names.size()) return fmt::format("{}", fmt::join(first, ", "));
  return fmt::format("{} and {} more", fmt::join(first, ", "), names.size() - shown);
}

std::string flight_text(int rank, const std::vector<std::string>& keys) {
  if (keys.empty()) return fmt::format("no key is in flight on rank {}", rank);
  constexpr std::size_t shown = 5;
  return fmt::format("in flight on rank {}: {}", rank, some_of(keys, shown));
}

std::string explain_mismatch(const Key& key, const std::vector<Said>& said) {
  for (const Field& field : fields) {
    const Groups groups = group(field, said);
    if (groups.size() < 2) continue;
    std::vector<std::string> parts;
    for (const auto& [value, ranks] : groups) {
      parts.push_back(fmt::format("{} {} {}", rank_list(ranks),
                                  ranks.size() == 1 ? field.verb : field.verbs, value));
    }
    return fmt::format("{}: {} differ: {}", named(key), field.plural, fmt::join(parts, ", "));
  }
  return fmt::format("{}: ranks disagree", named(key));
}

std::vector<int> differing_ranks(const std::vector<Said>& said) {
  const auto lowest = std::min_element(said.begin(), said.end(), [](const Said& a, const Said& b) {
    return *std::min_element(a.ranks.begin(), a.ranks.end()) <
           *std::min_element(b.ranks.begin(), b.ranks.end());
  });
  std::vector<int> ranks;
  for (auto one = said.begin(); one != said.end(); ++one) {
    if (one != lowest) ranks.insert(ranks.end(), one->ranks.begin(), one->ranks.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace tutti::coordinator
