#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace tutti::base {

/// Creates an anonymous file in memory (a memfd). Processes share it by passing its descriptor, so
/// it has no name and needs no clean-up.
///
/// `bytes` may be far more than the machine has, because a page takes memory only once it is
/// reserved or touched. Call `reserve` before touching pages: then a shortage is an error and not a
/// SIGBUS. Throws `internal`.
Fd create_memory_file(const std::string& label, std::size_t bytes);

/// Throws `internal` if the machine, or the control group of this process, has less than `bytes` of
/// memory left. `remedy` stands before other advice: "ask for less, ".
void check_available(std::size_t bytes, std::string_view remedy = "");

/// Allocates the pages of [offset, offset + bytes), in the memory next to this thread's processor.
/// Throws the same error as `check_available`.
void reserve(const Fd& file, std::size_t offset, std::size_t bytes);

/// The bytes that this process may still allocate: the smaller one of MemAvailable and the room in
/// its control groups.
std::size_t available_memory();

/// Owns a shared, writable mapping of a whole memory file. It is left out of core dumps. If a huge
/// page fits into it, it begins at a boundary of huge pages, so that all mappings of the file can
/// show the same huge pages.
class Mapping {
 public:
  Mapping() = default;
  /// Throws `internal`, even if only the size of the file differs.
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

/// Maps a memory file into this process. Tests whose ranks are threads replace it by a function
/// that shares mappings.
using Mapper = std::function<std::shared_ptr<Mapping>(const Fd& file, std::size_t bytes)>;

/// The usual Mapper makes a new mapping for each call. Throws `internal`.
std::shared_ptr<Mapping> map_file(const Fd& file, std::size_t bytes);

}  // namespace tutti::base
