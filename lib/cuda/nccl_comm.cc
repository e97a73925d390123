#include "cuda/nccl_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "cuda/nccl_functions.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

std::string failure(const NcclFunctions& nccl, ncclResult_t result, const char* call,
                    ncclComm_t comm) {
  const std::string_view details = nccl.ncclGetLastError(comm);
  return fmt::format("{} failed: {}{}{}", call, nccl.ncclGetErrorString(result),
                     details.empty() ? "" : ": ", details);
}

/// An abort under way. Its thread may outlive the communicator's object.
struct Abort {
  base::Mutex mutex{5};
  base::CondVar changed;
  bool done TUTTI_GUARDED_BY(mutex) = false;
};

bool wait_for(Abort& abort, std::chrono::milliseconds limit) {
  const auto deadline = base::Clock::now() + limit;
  base::Lock lock(abort.mutex);
  while (!abort.done) {
    if (!abort.changed.wait_until(lock, deadline)) return abort.done;
  }
  return true;
}

}  // namespace

NcclId make_nccl_id(const NcclLibrary& library) {
  const NcclFunctions& nccl = library.functions();
  ncclUniqueId made{};
  const ncclResult_t result = nccl.ncclGetUniqueId(&made);
  if (result != ncclSuccess) {
    throw Error(ErrorCode::internal, failure(nccl, result, "ncclGetUniqueId", nullptr));
  }
  NcclId id{};
  static_assert(sizeof made.internal == id.size());
  std::copy_n(made.internal, id.size(), id.begin());
  return id;
}

NcclComm::NcclComm(const NcclLibrary& library, const Gpu& gpu, const NcclId& id, int rank, int size)
    : library_(library), gpu_(gpu), rank_(rank), size_(size) {
  const ContextGuard context(gpu);
  ncclConfig_t config = config_for(library.version());
  config.blocking = 1;
  ncclUniqueId given{};
  std::ranges::copy(id, given.internal);
  check(library_.functions().ncclCommInitRankConfig(&comm_, size, given, rank, &config),
        "ncclCommInitRankConfig");
}

NcclComm::~NcclComm() {
  if (comm_ == nullptr) return;
  const ncclResult_t result = library_.functions().ncclCommDestroy(comm_);
  if (result == ncclSuccess) return;
  base::log().warn("gpu({}): {}", gpu_.ordinal(),
                   failure(library_.functions(), result, "ncclCommDestroy", nullptr));
}

void NcclComm::send(const void* data, std::size_t bytes, int peer, CUstream_st* stream) {
  check(library_.functions().ncclSend(data, bytes, ncclInt8, peer, comm_, stream), "ncclSend");
}

void NcclComm::receive(void* data, std::size_t bytes, int peer, CUstream_st* stream) {
  check(library_.functions().ncclRecv(data, bytes, ncclInt8, peer, comm_, stream), "ncclRecv");
}

void NcclComm::all_gather(const void* mine, void* all, std::size_t bytes, CUstream_st* stream) {
  check(library_.functions().ncclAllGather(mine, all, bytes, ncclInt8, comm_, stream),
        "ncclAllGather");
}

void NcclComm::grouped(const std::function<void()>& calls) {
  const NcclFunctions& nccl = library_.functions();
  check(nccl.ncclGroupStart(), "ncclGroupStart");
  try {
    calls();
  } catch (...) {
    // The group belongs to this thread. If it stayed open, it would swallow all later calls.
    nccl.ncclGroupEnd();
    throw;
  }
  check(nccl.ncclGroupEnd(), "ncclGroupEnd");
}

std::optional<std::string> NcclComm::async_error() const {
  const NcclFunctions& nccl = library_.functions();
  ncclResult_t struck = ncclSuccess;
  const ncclResult_t result = nccl.ncclCommGetAsyncError(comm_, &struck);
  if (result != ncclSuccess) return failure(nccl, result, "ncclCommGetAsyncError", comm_);
  if (struck == ncclSuccess || struck == ncclInProgress) return std::nullopt;
  return failure(nccl, struck, "NCCL's work", comm_);
}

bool NcclComm::abort(std::chrono::milliseconds limit) {
  ncclComm* const comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return true;
  const auto abort = std::make_shared<Abort>();
  base::NamedThread helper("tutti-nccl", [abort, library = library_, comm] {
    library.functions().ncclCommAbort(comm);
    const base::Lock lock(abort->mutex);
    abort->done = true;
    abort->changed.notify_all();
  });
  const bool done = wait_for(*abort, limit);
  if (!done) helper.abandon();  // nothing can interrupt it, and nobody waits for it
  return done;
}

void NcclComm::check(int result, const char* call) const {
  if (result == ncclSuccess) [[likely]]
    return;
  throw Error(
      ErrorCode::internal,
      fmt::format("gpu({}): {}", gpu_.ordinal(),
                  failure(library_.functions(), static_cast<ncclResult_t>(result), call, comm_)));
}

}  // namespace tutti::cuda
