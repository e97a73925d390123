#include "words.h"

#include <fmt/format.h>

#include <span>
#include <string>

#include "guard.h"

namespace tutti::c {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::invalid_argument, text);
}

/// A list of `count` entries. The pointer may be null if there are none.
template <typename T>
std::span<const T> list(const T* first, std::size_t count, const char* function,
                        const char* argument) {
  if (first == nullptr && count > 0) refuse_null(function, argument);
  return {first, count};
}

/// The contents of the handles of a list. `name` is the list's name for an error.
template <typename Name>
std::vector<Tensor> held_by(const tutti_tensor* const* handles, std::size_t count,
                            const char* function, Name&& name) {
  std::vector<Tensor> result;
  if (count == 0) return result;
  if (handles == nullptr) refuse_null(function, name());
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (handles[i] == nullptr) refuse_null(function, fmt::format("{}[{}]", name(), i));
    result.push_back(handles[i]->tensor);
  }
  return result;
}

Key key_of(const tutti_key& key) {
  return key.text != nullptr ? Key(key.text) : Key(key.integer);
}

}  // namespace

Shape shape_of(const std::int64_t* dims, std::size_t rank, const char* function) {
  return Shape(list(dims, rank, function, "dims"));
}

DType dtype_of(int dtype) {
  if (dtype < TUTTI_F16 || dtype > TUTTI_B128) {
    refuse(
        fmt::format("{} is no dtype; tutti/c.h lists them, from TUTTI_F16 to TUTTI_B128", dtype));
  }
  return static_cast<DType>(dtype);
}

Device device_of(tutti_device device) {
  if (device.kind != TUTTI_CPU && device.kind != TUTTI_GPU) {
    refuse(fmt::format("{} is no kind of device; there are TUTTI_CPU and TUTTI_GPU", device.kind));
  }
  return {device.kind == TUTTI_CPU ? Device::Kind::cpu : Device::Kind::gpu, device.index};
}

std::vector<Key> keys_of(const tutti_key* keys, std::size_t count, const char* function) {
  std::vector<Key> result;
  result.reserve(count);
  for (const tutti_key& key : list(keys, count, function, "keys")) result.push_back(key_of(key));
  return result;
}

std::vector<Tensor> tensors_of(const tutti_tensor* const* tensors, std::size_t count,
                               const char* function, const char* argument) {
  return held_by(tensors, count, function, [&] { return std::string(argument); });
}

std::vector<std::size_t> counts_of(const std::size_t* counts, std::size_t count,
                                   const char* function) {
  const auto all = list(counts, count, function, "counts");
  return {all.begin(), all.end()};
}

std::vector<Values> values_of(const tutti_values* values, std::size_t count, const char* function,
                              const char* argument) {
  std::vector<Values> result;
  result.reserve(count);
  for (const tutti_values& one : list(values, count, function, argument)) {
    std::vector<Tensor> tensors = held_by(one.tensors, one.count, function, [&] {
      return fmt::format("{}[{}].tensors", argument, result.size());
    });
    result.push_back(tensors.size() == 1 ? Values(std::move(tensors.front()))
                                         : Values(std::move(tensors)));
  }
  return result;
}

Optimizer optimizer_of(const tutti_optimizer& optimizer, const char* function) {
  Optimizer result{.name = &at(optimizer.name, function, "optimizer.name")};
  std::size_t place = 0;
  for (const tutti_parameter& parameter :
       list(optimizer.parameters, optimizer.parameter_count, function, "optimizer.parameters")) {
    if (parameter.name == nullptr) {
      refuse_null(function, fmt::format("optimizer.parameters[{}].name", place));
    }
    result.parameters[parameter.name] = parameter.value;
    ++place;
  }
  for (const tutti_factors& factors :
       list(optimizer.factors, optimizer.factor_count, function, "optimizer.factors")) {
    result.factors[key_of(factors.key)] = {.learning_rate = factors.learning_rate,
                                           .wd = factors.wd};
  }
  return result;
}

CallOptions call_options_of(const tutti_call_options* options) {
  if (options == nullptr) return {};
  if (options->op < TUTTI_SUM || options->op > TUTTI_MAX) {
    refuse(fmt::format("{} is no reduction; take TUTTI_SUM, TUTTI_AVERAGE, TUTTI_MIN or TUTTI_MAX",
                       options->op));
  }
  return {options->priority, static_cast<ReduceOp>(options->op)};
}

}  // namespace tutti::c
