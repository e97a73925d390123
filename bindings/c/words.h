#pragma once
// From the C API's plain structures to the nouns of the C++ headers. All functions throw
// `invalid_argument`.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "handles.h"
#include "tutti/c.h"

namespace tutti::c {

Shape shape_of(const std::int64_t* dims, std::size_t rank, const char* function);
DType dtype_of(int dtype);
Device device_of(tutti_device device);
std::vector<Key> keys_of(const tutti_key* keys, std::size_t count, const char* function);
std::vector<Tensor> tensors_of(const tutti_tensor* const* tensors, std::size_t count,
                               const char* function, const char* argument);
std::vector<Values> values_of(const tutti_values* values, std::size_t count, const char* function,
                              const char* argument);
std::vector<std::size_t> counts_of(const std::size_t* counts, std::size_t count,
                                   const char* function);
CallOptions call_options_of(const tutti_call_options* options);
Optimizer optimizer_of(const tutti_optimizer& optimizer, const char* function);

}  // namespace tutti::c
