#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/fd.h"

namespace tutti::base {

/// An anonymous file in memory, to be shared by passing its descriptor: no name, nothing to clean
/// up. `reserve`d pages are there for certain, so that shortage is an error and not a SIGBUS.
///
/// `bytes` may be far more than the machine has: pages exist only once reserved or touched.
/// Throws `internal`.
Fd create_memory_file(const std::string& label, std::size_t bytes);

/// Throws `internal` when the machine, or the control group that the process lives in, has not so
/// much memory left.
void check_available(std::size_t bytes);

/// Makes the pages of [offset, offset + bytes) exist, next to this thread's processor. Throws as
/// `check_available`.
void reserve(const Fd& file, std::size_t offset, std::size_t bytes);

/// Memory that this process may still take: the smaller of MemAvailable and what the control
/// groups allow. Bytes.
std::size_t available_memory();

/// Owns a shared, writable mapping of a whole memory file. Left out of core dumps. One in which a
/// huge page has room begins where one may, so that the file shows the same huge pages everywhere.
class Mapping {
 public:
  Mapping() = default;
  /// Throws `internal`, also when the file has another size.
  Mapping(const Fd& file, std::size_t bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// How a memory file becomes memory of this process; tests whose ranks are threads share mappings.
using Mapper = std::function<std::shared_ptr<Mapping>(const Fd& file, std::size_t bytes)>;

/// A mapping of one's own. Throws `internal`.
std::shared_ptr<Mapping> map_file(const Fd& file, std::size_t bytes);

}  // namespace tutti::base
