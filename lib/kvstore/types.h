#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "kvstore/environment.h"

namespace tutti {

/// The kind of store that a type string asks for.
enum class Family : std::uint8_t { collective, parameter_server, local, device, nccl };

struct StoreType {
  std::string name;  ///< in lower case, as `KVStore::type` returns it
  Family family;
  bool asynchronous = false;  ///< whether it is a type with a parameter server
};

/// Looks up a type string, in upper or lower case. Under the launcher's mode `mpi` the synchronous
/// `dist` names mean `dist_sync_mpi`, and the asynchronous names throw `unsupported`. Throws
/// `invalid_argument` for an unknown name, and lists the known names.
StoreType find_store_type(std::string_view type, LaunchMode mode);

}  // namespace tutti
