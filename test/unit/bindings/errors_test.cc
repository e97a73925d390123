// The errors of the C API when there is no memory even for their texts.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <string>

#include "tutti/c.h"

namespace {

thread_local bool memory_is_out = false;

}  // namespace

// A definition in the program goes before the C++ library's for every shared library.
void* operator new(std::size_t bytes) {
  void* const memory = memory_is_out ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// The address sanitizer's would not be freed by what follows.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return memory_is_out ? nullptr : std::malloc(bytes);
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}

TEST_CASE("a call that finds no memory fails, and so does what would say of what") {
  tutti_store* store = nullptr;
  memory_is_out = true;
  const int code = tutti_store_create("local", nullptr, &store);
  const int rank = tutti_store_rank(nullptr);
  const tutti_error error = *tutti_last_error();
  memory_is_out = false;
  CHECK(code == TUTTI_INTERNAL);
  CHECK(store == nullptr);
  CHECK(rank == -1);
  CHECK(error.code == TUTTI_INTERNAL);
  CHECK(error.message == std::string("out of memory"));
  CHECK(error.has_key == 0);
  CHECK(error.rank_count == 0);
  INFO("and the next failure has its text");
  CHECK(tutti_store_rank(nullptr) == -1);
  CHECK(std::string(tutti_last_error()->message).find("tutti_store_rank") == 0);
}
