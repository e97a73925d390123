#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "kvstore/environment.h"

namespace tutti {

/// Which kind of store a type string asks for.
enum class Family : std::uint8_t { collective, parameter_server, local, nccl };

struct StoreType {
  std::string name;  ///< lower-cased; what `type` will say
  Family family;
};

/// Looks the type string up, any case, in the one table of names. Under the launcher's mode `mpi`
/// the synchronous `dist` names mean `dist_sync_mpi`, and the asynchronous ones are `unsupported`.
/// Throws `invalid_argument` for an unknown one, listing those there are.
StoreType find_store_type(std::string_view type, LaunchMode mode);

}  // namespace tutti
