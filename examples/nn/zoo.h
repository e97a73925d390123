#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nn/network.h"

namespace nn {

/// The names that `make_network` knows.
std::vector<std::string> network_names();
/// The extent of the images for which a network was designed. It also takes others.
Extent usual_image(std::string_view network);

/// A network for images of this extent. Its parameters are still zero. Throws `invalid_argument`
/// for an unknown name and for images that are too small.
Network make_network(std::string_view name, const Extent& image, std::int64_t classes,
                     tutti::Device device);

}  // namespace nn
