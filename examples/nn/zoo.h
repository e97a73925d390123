#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "nn/network.h"

namespace nn {

/// The names that `make_network` knows.
std::span<const std::string_view> network_names();

/// A network for images of this extent, its parameters still zero. Throws `invalid_argument` for an
/// unknown name and for images that are too small.
Network make_network(std::string_view name, const Extent& image, std::int64_t classes,
                     tutti::Device device);

}  // namespace nn
