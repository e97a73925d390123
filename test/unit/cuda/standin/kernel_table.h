#pragma once
#include <cstddef>
#include <string>

/// lib/cuda/kernels.cu, compiled for the host.
namespace standin {

struct Kernel {
  std::size_t argument_bytes;  ///< of its one argument
  /// Runs one thread of one block of `blocks`, of `threads` each.
  void (*run)(const void* argument, unsigned blocks, unsigned threads, unsigned block,
              unsigned thread);
  /// How many bytes it reads and writes.
  std::size_t (*bytes)(const void* argument);
};

/// Null if there is no kernel of this name.
const Kernel* find_kernel(const std::string& name);

}  // namespace standin
