#include "base/mapping.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>

#include "base/huge_pages.h"
#include "tutti/error.h"

using namespace tutti::base;

TEST_CASE("two mappings of a memory file show the same bytes") {
  const Fd file = create_memory_file("test", 8192);
  reserve(file, 0, 8192);
  const Mapping a(file, 8192);
  const Mapping b(file, 8192);
  a.data()[5000] = std::byte{42};
  CHECK(b.data()[5000] == std::byte{42});
}

TEST_CASE("a mapping in which a huge page has room begins where one may") {
  // If the kernel has no huge page, any page will do.
  const std::size_t huge = std::max<std::size_t>(huge_page_bytes(), 4096);
  for (const std::size_t bytes : {huge, 2 * huge + 4096, 3 * huge - 1}) {
    const Fd file = create_memory_file("test", bytes);
    const Mapping mapping(file, bytes);
    const Mapping another(file, bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(mapping.data()) % huge == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(another.data()) % huge == 0);
    mapping.data()[bytes - 1] = std::byte{42};
    CHECK(another.data()[bytes - 1] == std::byte{42});
  }
}

TEST_CASE("a memory file beyond the limit of files is an error, not the end of the process") {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit narrow{1 << 20, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &narrow);
  CHECK_THROWS_WITH(create_memory_file("test", (1 << 20) + 1),
                    Catch::Contains("1048577") && Catch::Contains("ulimit -f"));
  CHECK_NOTHROW(create_memory_file("test", 1 << 20));
  ::setrlimit(RLIMIT_FSIZE, &before);
}

TEST_CASE("a memory file may be larger than the machine until pages are reserved") {
  const std::size_t huge = std::size_t{1} << 40;
  const Fd file = create_memory_file("test", huge);
  const Mapping mapping(file, huge);
  mapping.data()[huge - 1] = std::byte{1};
  CHECK_THROWS_AS(reserve(file, 0, huge), tutti::Error);
}

TEST_CASE("nobody who has a memory file can cut it short under the others") {
  const Fd file = create_memory_file("test", 8192);
  CHECK(::ftruncate(file.get(), 4096) == -1);
  CHECK(errno == EPERM);
  CHECK_NOTHROW(Mapping(file, 8192));
}

TEST_CASE("a memory file is not mapped with another size than it has") {
  const Fd file = create_memory_file("test", 8192);
  CHECK_THROWS_WITH(Mapping(file, 12288), Catch::Contains("8192") && Catch::Contains("12288"));
  CHECK_THROWS_AS(Mapping(file, 4096), tutti::Error);
}
