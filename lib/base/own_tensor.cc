#include "base/own_tensor.h"

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <new>

#include "tutti/error.h"

namespace tutti::base {
namespace {

constexpr std::align_val_t alignment{64};

}  // namespace

Tensor own_tensor(const Shape& shape, DType dtype) {
  void* memory = nullptr;
  if (shape.count() <= std::numeric_limits<std::size_t>::max() / size_of(dtype)) {
    memory = ::operator new(shape.count() * size_of(dtype), alignment, std::nothrow);
  }
  if (memory == nullptr) {
    throw Error(ErrorCode::internal, fmt::format("there is not enough memory for a tensor of {} {}",
                                                 name(dtype), shape.describe()));
  }
  return {std::shared_ptr<void>(memory, [](void* p) { ::operator delete(p, alignment); }), shape,
          dtype};
}

}  // namespace tutti::base
