#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "tutti/tensor.h"

namespace tutti::python::mxnet {

/// An NDArray of MXNet: the value of `NDArray.handle`.
using Handle = void*;

/// The callback by which an operation tells the engine that it is done. It has the layout of the
/// header mxnet/engine.h of version 1.9. A copy may be called in place of the original, but only
/// one call may be made.
struct OnComplete {
  void (*callback)(void* engine, void* operation, const std::exception* error);
  void* engine;
  void* operation;

  /// `error` is null, or the error of the arrays that the operation writes. It must have the layout
  /// of dmlc::Error, which is that of std::runtime_error.
  void operator()(const std::exception* error) const { callback(engine, operation, error); }
};

/// The memory of an NDArray. The object keeps it until it is destroyed.
class Memory {
 public:
  Memory() = default;
  explicit Memory(void* dlpack) : dlpack_(dlpack) {}
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  /// The tensor is valid as long as this object. Throws `invalid_argument` if the library has no
  /// such dtype.
  Tensor tensor() const;

 private:
  void* dlpack_ = nullptr;
};

/// The functions of MXNet's C interface that tutti uses. They are in the library that the process
/// has loaded, because the extension is not linked to it. Any thread may call all of them except
/// `push`, without the GIL.
class Library {
 public:
  /// `path` is that of libmxnet.so. Throws `unsupported` if the library is not loaded or lacks a
  /// function.
  explicit Library(const std::string& path);

  /// Another handle of the same array, to be freed.
  Handle share(Handle array) const;
  void free(Handle array) const noexcept;
  /// The memory of an array that the engine lets the caller use now, in the order of its shape.
  /// oneDNN leaves some arrays, such as gradients of convolutions, in a layout of its own. These
  /// are laid out anew. Throws `unsupported` for an array on a GPU, because its address is not
  /// valid in this process.
  Memory memory(Handle array) const;

  struct Operation {
    void (*run)(void* run_context, void* on_complete, void* argument);
    void* argument;
    void (*destroy)(void* argument);
    int priority;
    const char* name;
  };
  /// Lets MXNet's engine run the operation once nothing else uses these arrays, and lets nothing
  /// else use them until it is done. Does not block.
  void push(const Operation& operation, std::vector<Handle> used) const;

  /// Names the memory of an array, as long as the array exists. Slices of one array have the same
  /// name.
  static std::uintptr_t memory_of(Handle array);
  /// Blocks until the engine has done all its operations, and ends the engine. The engine skips
  /// later operations.
  void finish() const noexcept;
  /// Ends the engine. It skips operations that it has not begun. Operations that run go on.
  void stop() const noexcept;

 private:
  void check(int result, const char* what) const;

  int (*share_)(Handle, Handle*);
  int (*free_)(Handle);
  int (*context_of_)(Handle, int* type, int* device);
  int (*to_dlpack_)(Handle, void**);
  /// Null in an MXNet without oneDNN.
  void (*lay_out_)(void* chunk);
  const char* (*last_error_)();
  int (*push_)(void (*)(void*, void*, void*), void*, void (*)(void*), const void*, Handle*, int,
               Handle*, int, const void*, int, const char*, bool);
  int (*wait_for_all_)();
  int (*shut_down_)();
};

}  // namespace tutti::python::mxnet
