#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/mapping.h"
#include "base/mutex.h"

namespace tutti::shm {

/// Memory of one rank that all ranks of its node can read and write. It is a sparse memory file,
/// whose pages exist once they are allocated. Thread-safe.
///
/// Every allocation keeps its arena alive.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  /// The deleter of an allocation. It runs no code of the program, and may run on any thread.
  struct GiveBack {
    void operator()(void* memory) const;
    std::shared_ptr<Arena> arena;
    std::size_t bytes;
  };

  /// `bytes` is the size of the range of addresses. `memory` is the size of the machine's memory,
  /// and the most that one allocation may take. Throws `internal`.
  static std::shared_ptr<Arena> create(std::size_t bytes, const base::Mapper& map,
                                       std::size_t memory = SIZE_MAX);

  const base::Fd& file() const { return file_; }
  std::span<std::byte> span() const { return mapping_->span(); }

  /// Returns page-aligned memory, all zeros, with its pages reserved. They are huge where huge
  /// pages fit and the kernel has some. The memory is freed when the last copy of the pointer in
  /// this process is destroyed. Throws `internal` if the machine has not enough memory left.
  std::shared_ptr<void> allocate(std::size_t bytes) TUTTI_EXCLUDES(mutex_);
  /// The bytes that are allocated now, and the most that ever were, in whole pages.
  std::size_t held() const { return held_.load(std::memory_order_relaxed); }
  std::size_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  Arena(base::Fd file, std::shared_ptr<base::Mapping> mapping, std::size_t largest);
  std::optional<std::size_t> find(std::size_t bytes, std::size_t alignment) const
      TUTTI_REQUIRES(mutex_);
  std::size_t take(std::size_t bytes) TUTTI_EXCLUDES(mutex_);
  void give_back(std::size_t offset, std::size_t bytes) TUTTI_EXCLUDES(mutex_);

  const pid_t owner_;
  const std::size_t largest_;
  const base::Fd file_;
  const std::shared_ptr<base::Mapping> mapping_;
  std::atomic<std::size_t> held_{0};  ///< both written under the mutex
  std::atomic<std::size_t> peak_{0};
  base::Mutex mutex_{5};
  std::map<std::size_t, std::size_t> free_ TUTTI_GUARDED_BY(mutex_);  ///< offset → bytes
};

}  // namespace tutti::shm
