#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tutti/key.h"

namespace tutti::coordinator {

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return key.is_integer() ? std::hash<std::int64_t>{}(key.integer())
                            : std::hash<std::string>{}(key.string());
  }
};

}  // namespace tutti::coordinator
