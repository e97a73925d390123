#include "base/heap.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace tutti::base {
namespace {

/// From this number of keys on, a store's tables take some MiB.
constexpr std::size_t many_keys = 4096;

/// As long as it lives, this is the last block of the calling thread's arena. malloc_trim returns
/// free memory that lies before a used block, but not the memory behind the last one. To be the
/// last, the constructor takes all free memory before it, and touches one page of each block. If
/// memory is short, the block is not at the end, and less memory is returned.
class LastBlock {
 public:
  LastBlock() noexcept {
    Block* before = nullptr;
    for (std::size_t left = most_blocks(); left > 0; --left) {
      void* const memory = std::malloc(bytes);
      if (memory == nullptr) break;
      before = std::exchange(last_, new (memory) Block{last_});
    }
    while (before != nullptr) std::free(std::exchange(before, before->before));
  }
  ~LastBlock() { std::free(last_); }
  LastBlock(const LastBlock&) = delete;
  LastBlock& operator=(const LastBlock&) = delete;

 private:
  /// The blocks are linked, so that keeping them takes no memory of its own.
  struct Block {
    Block* before = nullptr;
  };

  /// The number of blocks that surely suffices. The free memory of all arenas, which mallinfo2
  /// counts, holds fewer. The last block is behind it.
  static std::size_t most_blocks() noexcept {
    return std::min(::mallinfo2().fordblks, most_free) / bytes + 1;
  }

  /// A block is smaller than those for which malloc asks the system.
  static constexpr std::size_t bytes = std::size_t{96} << 10;
  /// The free end of an arena has at most 64 MiB, and so do the holes that growing tables have
  /// left.
  static constexpr std::size_t most_free = std::size_t{128} << 20;

  Block* last_ = nullptr;
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
