// Counts calls of malloc and the functions related to it. A definition in the program precedes the
// C library's for every shared library of the process. operator new calls malloc.
#include "allocation_count.h"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<std::uint64_t> count{0};
std::atomic<bool> traced{false};
thread_local bool tracing = false;

void note() {
  count.fetch_add(1, std::memory_order_relaxed);
  if (!traced.load(std::memory_order_relaxed) || tracing) return;
  tracing = true;
  std::array<void*, 24> stack{};
  const int depth = ::backtrace(stack.data(), static_cast<int>(stack.size()));
  ::backtrace_symbols_fd(stack.data(), depth, STDERR_FILENO);
  static_cast<void>(::write(STDERR_FILENO, "\n", 1) == 1);
  tracing = false;
}

}  // namespace

// The C library's own names for what stands behind malloc.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

__attribute__((visibility("default"))) void* malloc(std::size_t bytes) {
  note();
  return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* calloc(std::size_t number, std::size_t bytes) {
  note();
  return __libc_calloc(number, bytes);
}
__attribute__((visibility("default"))) void* realloc(void* memory, std::size_t bytes) {
  note();
  return __libc_realloc(memory, bytes);
}
__attribute__((visibility("default"))) void* memalign(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
__attribute__((visibility("default"))) void* aligned_alloc(std::size_t alignment,
                                                           std::size_t bytes) {
  return memalign(alignment, bytes);
}
__attribute__((visibility("default"))) int posix_memalign(void** memory, std::size_t alignment,
                                                          std::size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace allocation_count {

std::uint64_t total() {
  return count.load(std::memory_order_relaxed);
}

Trace::Trace() {
  // Its first call loads a library, which allocates.
  std::array<void*, 1> stack{};
  ::backtrace(stack.data(), 1);
  traced = true;
}

Trace::~Trace() {
  traced = false;
}

}  // namespace allocation_count
