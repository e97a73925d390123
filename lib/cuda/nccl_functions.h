#pragma once
// For lib/cuda only: NCCL's API, whose functions keep their type for all of NCCL 2.
#include <nccl.h>

#include <cstddef>

namespace tutti::cuda {

#define TUTTI_NCCL_FUNCTIONS(FUNCTION) \
  FUNCTION(ncclAllGather)              \
  FUNCTION(ncclCommAbort)              \
  FUNCTION(ncclCommDestroy)            \
  FUNCTION(ncclCommGetAsyncError)      \
  FUNCTION(ncclCommInitRankConfig)     \
  FUNCTION(ncclGetErrorString)         \
  FUNCTION(ncclGetLastError)           \
  FUNCTION(ncclGetUniqueId)            \
  FUNCTION(ncclGetVersion)             \
  FUNCTION(ncclGroupEnd)               \
  FUNCTION(ncclGroupStart)             \
  FUNCTION(ncclRecv)                   \
  FUNCTION(ncclSend)

struct NcclFunctions {
#define TUTTI_NCCL_FUNCTION(name) decltype(&::name) name = nullptr;
  TUTTI_NCCL_FUNCTIONS(TUTTI_NCCL_FUNCTION)
#undef TUTTI_NCCL_FUNCTION
};

/// A configuration for this version of NCCL: with its version number and the size of its struct,
/// because it would misread or refuse newer fields. For later versions, the configuration of the
/// present header.
ncclConfig_t config_for(int version);

}  // namespace tutti::cuda
