#include "python/mxnet/library.h"

#include <dlfcn.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "python/arrays.h"
#include "tutti/error.h"

namespace tutti::python::mxnet {
namespace {

/// DLPack's managed tensor, in the version without a version number.
struct Managed {
  nb::dlpack::dltensor tensor;
  void* owner;
  void (*destroy)(Managed*);
};

// The structure of mxnet/base.h.
struct Context {
  int type;
  std::int32_t device;
};
constexpr int cpu = 1;
constexpr int gpu = 2;
/// FnProperty::kCPUPrioritized. Such operations have threads of their own, so that an exchange does
/// not wait for a computation that is running.
constexpr int before_computation = 3;

/// NDArray::Chunk::Reorder2Default(). The C interface has a function for it, which waits for the
/// engine. The engine would wait for the operation that calls it.
constexpr auto reorder_to_default = "_ZN5mxnet7NDArray5Chunk15Reorder2DefaultEv";

/// An NDArray begins with the pointer to its memory.
void* chunk_of(Handle array) {
  return *static_cast<void**>(array);
}

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  void* const found = ::dlsym(library, name);
  if (found == nullptr)
    throw Error(ErrorCode::unsupported,
                std::string("this MXNet lacks ") + name + "; tutti works with version 1.9.1");
  function = reinterpret_cast<Function*>(found);
}

}  // namespace

Memory::~Memory() {
  if (dlpack_ == nullptr) return;
  auto* const managed = static_cast<Managed*>(dlpack_);
  managed->destroy(managed);
}

Memory::Memory(Memory&& other) noexcept : dlpack_(std::exchange(other.dlpack_, nullptr)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(dlpack_, other.dlpack_);
  return *this;
}

Tensor Memory::tensor() const {
  const nb::dlpack::dltensor& tensor = static_cast<const Managed*>(dlpack_)->tensor;
  const Shape shape({tensor.shape, static_cast<std::size_t>(tensor.ndim)});
  char* const data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  const std::optional<DType> dtype = dtype_of(tensor.dtype);
  if (!dtype)
    throw Error(ErrorCode::unsupported,
                "tutti does not have the dtype of this MXNet array; convert the array with astype");
  return {data, shape, *dtype, {Device::Kind::cpu, tensor.device.device_id}};
}

Library::Library(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr)
    throw Error(ErrorCode::unsupported, "MXNet's library " + path + " is not loaded");
  find(library, "MXShallowCopyNDArray", share_);
  find(library, "MXNDArrayFree", free_);
  find(library, "MXNDArrayGetContext", context_of_);
  find(library, "MXNDArrayToDLPack", to_dlpack_);
  lay_out_ = reinterpret_cast<decltype(lay_out_)>(::dlsym(library, reorder_to_default));
  find(library, "MXGetLastError", last_error_);
  find(library, "MXEnginePushAsyncND", push_);
  find(library, "MXNDArrayWaitAll", wait_for_all_);
  find(library, "MXNotifyShutdown", shut_down_);
}

void Library::check(int result, const char* what) const {
  if (result != 0)
    throw Error(ErrorCode::internal, std::string("MXNet cannot ") + what + ": " + last_error_());
}

Handle Library::share(Handle array) const {
  Handle copy = nullptr;
  check(share_(array, &copy), "share an array");
  return copy;
}

void Library::free(Handle array) const noexcept {
  free_(array);
}

Memory Library::memory(Handle array) const {
  int type = cpu;
  int device = 0;
  check(context_of_(array, &type, &device), "say where an array is");
  if (type == gpu)
    throw Error(ErrorCode::unsupported,
                "an MXNet array on gpu(" + std::to_string(device) +
                    "): tutti does not exchange MXNet's arrays on GPUs; copy the array to the CPU");
  if (lay_out_ != nullptr) lay_out_(chunk_of(array));
  void* dlpack = nullptr;
  check(to_dlpack_(array, &dlpack), "give an array's memory");
  return Memory(dlpack);
}

void Library::push(const Operation& operation, std::vector<Handle> used) const {
  // If the same memory stood here twice, the engine would wait for ever.
  std::ranges::sort(used, {}, chunk_of);
  used.erase(std::ranges::unique(used, {}, chunk_of).begin(), used.end());
  const Context context{cpu, 0};
  check(push_(operation.run, operation.argument, operation.destroy, &context, nullptr, 0,
              used.data(), static_cast<int>(used.size()), &before_computation, operation.priority,
              operation.name, false),
        "schedule an exchange");
}

std::uintptr_t Library::memory_of(Handle array) {
  return reinterpret_cast<std::uintptr_t>(chunk_of(array));
}

void Library::finish() const noexcept {
  wait_for_all_();  // fails if an operation did for which nobody has waited: see failures.h
  stop();
}

void Library::stop() const noexcept {
  shut_down_();
}

}  // namespace tutti::python::mxnet
