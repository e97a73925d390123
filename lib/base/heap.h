#pragma once
#include <cstddef>
#include <functional>

namespace tutti::base {

/// Returns freed memory to the system after a store with this many keys has dropped them. malloc
/// itself keeps free pages between pages in use, and whole arenas of threads that have ended. To
/// return them, this walks over the heap of the whole process, which takes 100 ms for a million
/// small blocks. So it does nothing for a small number of keys.
void return_memory_of(std::size_t keys);

/// Calls `drop`, which destroys the tables of this many keys, and returns their memory to the
/// system. Call it on the thread that has made these tables, before the thread ends. Otherwise
/// malloc keeps the free end of its arena, up to 64 MiB.
void return_memory_of(std::size_t keys, const std::function<void()>& drop);

}  // namespace tutti::base
