#pragma once
#include <catch2/catch.hpp>
#include <map>
#include <variant>
#include <vector>

#include "ps/registry.h"

/// All that a scheduler has said to each node.
struct HeardFromScheduler {
  std::map<tutti::ps::Registry::Node, std::vector<tutti::ps::FromScheduler>> all;

  void add(tutti::ps::Registry::Node node, const tutti::ps::FromScheduler& message) {
    all[node].push_back(message);
  }
  /// The last thing that the node heard, which must be of this kind.
  template <typename Message>
  const Message& last(tutti::ps::Registry::Node node) {
    REQUIRE_FALSE(all[node].empty());
    REQUIRE(std::holds_alternative<Message>(all[node].back()));
    return std::get<Message>(all[node].back());
  }
};
