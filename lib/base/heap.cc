#include "base/heap.h"

#include <malloc.h>

#include <cstdlib>
#include <vector>

namespace tutti::base {
namespace {

/// From here on a store's tables are some MiB.
constexpr std::size_t many_keys = 4096;

/// A block at the end of what the calling thread's arena has given out, while it lives. malloc_trim
/// returns free memory before such a block, but not behind the last one. To put it there the
/// constructor takes all memory that is free before it; the pages of that are not touched.
class LastBlock {
 public:
  LastBlock() {
    std::vector<void*> blocks;
    blocks.reserve(most_free / bytes);
    while (blocks.size() < blocks.capacity()) {
      void* const block = std::malloc(bytes);
      if (block == nullptr) break;
      blocks.push_back(block);
    }
    if (blocks.empty()) return;
    last_ = blocks.back();
    blocks.pop_back();
    for (void* const block : blocks) std::free(block);
  }
  ~LastBlock() { std::free(last_); }
  LastBlock(const LastBlock&) = delete;
  LastBlock& operator=(const LastBlock&) = delete;

 private:
  /// Smaller than a block for which malloc asks the system.
  static constexpr std::size_t bytes = std::size_t{96} << 10;
  /// An arena's free end has at most 64 MiB, and so have holes that growing tables have left.
  static constexpr std::size_t most_free = std::size_t{128} << 20;

  void* last_ = nullptr;
};

}  // namespace

void return_memory_of(std::size_t keys) {
  if (keys >= many_keys) ::malloc_trim(0);
}

void return_memory_of(std::size_t keys, const std::function<void()>& drop) {
  if (keys < many_keys) return drop();
  const LastBlock last;
  drop();
  return_memory_of(keys);
}

}  // namespace tutti::base
