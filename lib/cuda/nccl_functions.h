#pragma once
// NCCL's API, for lib/cuda only. Its functions keep their types in all versions of NCCL 2.
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

/// A configuration for this version of NCCL. It has that version's number and the size of its
/// struct, because that version would misread or refuse newer fields. For later versions, it is the
/// configuration of the present header.
ncclConfig_t config_for(int version);

}  // namespace tutti::cuda
