#include <memory>

#include "guard.h"
#include "handles.h"
#include "words.h"

using tutti::c::answered;
using tutti::c::at;
using tutti::c::guarded;

int tutti_tensor_create(void* data, const int64_t* dims, size_t rank, int dtype,
                        tutti_device device, tutti_release release, void* context,
                        tutti_tensor** tensor) {
  return guarded([&] {
    constexpr const char* function = "tutti_tensor_create";
    // This comes first, so that the lent memory is given back even if something fails after this.
    std::shared_ptr<void> lent;
    if (release != nullptr) lent.reset(data, [release, context](void*) { release(context); });
    tutti_tensor*& made = at(tensor, function, "tensor");
    const tutti::Shape shape = tutti::c::shape_of(dims, rank, function);
    const tutti::DType type = tutti::c::dtype_of(dtype);
    const tutti::Device where = tutti::c::device_of(device);
    made =
        new tutti_tensor{lent.use_count() > 0 ? tutti::Tensor(std::move(lent), shape, type, where)
                                              : tutti::Tensor(data, shape, type, where)};
  });
}

void tutti_tensor_destroy(tutti_tensor* tensor) {
  delete tensor;
}

int tutti_tensor_set_stream(tutti_tensor* tensor, void* stream) {
  return guarded([&] {
    tutti::Tensor& into = at(tensor, "tutti_tensor_set_stream", "tensor").tensor;
    into = into.on(static_cast<CUstream_st*>(stream));
  });
}

int tutti_tensor_copy(const tutti_tensor* from, const tutti_tensor* to) {
  return guarded([&, function = "tutti_tensor_copy"] {
    tutti::copy(at(from, function, "from").tensor, at(to, function, "to").tensor);
  });
}

void* tutti_tensor_data(const tutti_tensor* tensor) {
  return answered<void*>(nullptr,
                         [&] { return at(tensor, "tutti_tensor_data", "tensor").tensor.data(); });
}

const int64_t* tutti_tensor_dims(const tutti_tensor* tensor, size_t* rank) {
  return answered<const int64_t*>(nullptr, [&] {
    const auto dims = at(tensor, "tutti_tensor_dims", "tensor").tensor.shape().dims();
    if (rank != nullptr) *rank = dims.size();
    return dims.data();
  });
}

int tutti_tensor_dtype(const tutti_tensor* tensor) {
  return answered(-1, [&] {
    return static_cast<int>(at(tensor, "tutti_tensor_dtype", "tensor").tensor.dtype());
  });
}

tutti_device tutti_tensor_device(const tutti_tensor* tensor) {
  return answered(tutti_device{-1, -1}, [&] {
    const tutti::Device device = at(tensor, "tutti_tensor_device", "tensor").tensor.device();
    return tutti_device{device.kind == tutti::Device::Kind::cpu ? TUTTI_CPU : TUTTI_GPU,
                        device.index};
  });
}

size_t tutti_tensor_count(const tutti_tensor* tensor) {
  return answered<size_t>(
      0, [&] { return at(tensor, "tutti_tensor_count", "tensor").tensor.count(); });
}

size_t tutti_tensor_bytes(const tutti_tensor* tensor) {
  return answered<size_t>(
      0, [&] { return at(tensor, "tutti_tensor_bytes", "tensor").tensor.bytes(); });
}
