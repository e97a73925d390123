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

/// A rank's memory that its node can read and write: a sparse memory file, as large as the machine
/// has memory, whose pages exist once they have been allocated. Thread-safe.
///
/// It lives as long as its longest-lived allocation.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  /// `bytes` of addresses; no allocation takes more than `memory`, the machine's. Throws
  /// `internal`.
  static std::shared_ptr<Arena> create(std::size_t bytes, const base::Mapper& map,
                                       std::size_t memory = SIZE_MAX);

  const base::Fd& file() const { return file_; }
  std::span<std::byte> span() const { return mapping_->span(); }

  /// Page-aligned memory, all zeros, whose pages are there for certain, huge ones where they fit
  /// and the kernel has them; given back when the last copy of the pointer goes, in this process.
  /// Throws `internal` when the machine has not enough left.
  std::shared_ptr<void> allocate(std::size_t bytes) TUTTI_EXCLUDES(mutex_);
  /// Allocated now, and the most that ever was, in whole pages.
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
  base::Mutex mutex_;
  std::map<std::size_t, std::size_t> free_ TUTTI_GUARDED_BY(mutex_);  ///< offset → bytes
};

}  // namespace tutti::shm
