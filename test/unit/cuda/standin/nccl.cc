// NCCL's functions, as libnccl.so.2 exports them.
#include <nccl.h>

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda.h"
#include "launch.h"
#include "unseen.h"

using namespace standin;

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::mutex faults_mutex;
Faults& faults() {
  static auto* const only = new Faults(variable("STANDIN_FAULTS"));
  return *only;
}

thread_local std::string last_error;

ncclResult_t refuse(ncclResult_t result, const std::string& reason) {
  last_error = reason;
  return result;
}

std::optional<Fault> next_fault(const char* function) {
  const Unseen unseen;
  const std::lock_guard lock(faults_mutex);
  return faults().next(function);
}

/// The functions of the driver's stand-in that this library needs.
struct Driver {
  decltype(&::cuCtxGetDevice) get_device;
  void (*enqueue)(CUstream stream, void (*work)(void*), void* data, std::size_t bytes);
};

const Driver& driver() {
  static const Driver found = [] {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
    return Driver{
        reinterpret_cast<decltype(Driver::get_device)>(::dlsym(library, "cuCtxGetDevice")),
        reinterpret_cast<decltype(Driver::enqueue)>(::dlsym(library, "standin_enqueue"))};
  }();
  return found;
}

Comm* comm_of(ncclComm_t handle) {
  return reinterpret_cast<Comm*>(handle);
}

/// Never deleted: a stream's thread lets go of one without telling anybody.
Comm* make_comm() {
  static auto* const all = new std::vector<std::unique_ptr<Comm>>;
  static std::mutex mutex;
  const Unseen unseen;
  const std::lock_guard lock(mutex);
  return all->emplace_back(std::make_unique<Comm>()).get();
}

/// The calls of a thread since its group began.
struct Pending {
  cudaStream_t stream = nullptr;
  std::unique_ptr<Launch> launch;
};
thread_local int depth = 0;
thread_local std::map<Comm*, Pending> pending;

void work(void* data) {
  const std::unique_ptr<Launch> launch(static_cast<Launch*>(data));
  launch->run();
  launch->comm->under_way.fetch_sub(1, std::memory_order_relaxed);
}

void flush() {
  for (auto& [comm, one] : pending) {
    one.launch->number = ++comm->launches;
    comm->under_way.fetch_add(1, std::memory_order_relaxed);
    const std::size_t bytes = one.launch->bytes();
    driver().enqueue(one.stream, &work, one.launch.release(), bytes);
  }
  pending.clear();
}

/// Adds transfers to the comm's launch, by `add`, and launches it unless a group is open.
ncclResult_t call(const char* function, ncclComm_t handle, cudaStream_t stream, ncclDataType_t type,
                  Kind kind, const std::function<void(Launch&)>& add) {
  if (type != ncclInt8) return refuse(ncclInvalidArgument, "the stand-in moves bytes alone");
  const auto fault = next_fault(function);
  if (fault && fault->kind == Fault::Kind::at_once) {
    return refuse(static_cast<ncclResult_t>(fault->error), std::string(function) + ": planned");
  }
  Pending& one = pending[comm_of(handle)];
  if (!one.launch) one.launch = std::make_unique<Launch>();
  one.stream = stream;
  one.launch->comm = comm_of(handle);
  one.launch->kind = kind;
  if (fault) one.launch->fault = fault;
  add(*one.launch);
  if (depth == 0) flush();
  return ncclSuccess;
}

std::byte* bytes_of(const void* data) {
  return static_cast<std::byte*>(const_cast<void*>(data));
}

/// This rank's device on its host, as a number that no other rank may have.
std::uint64_t place() {
  CUdevice device = 0;
  if (driver().get_device(&device) != CUDA_SUCCESS) return 0;
  return std::hash<std::string>()(variable("NCCL_HOSTID")) * 64 + static_cast<unsigned>(device) + 1;
}

/// Waits until all ranks have come. Two of them on one device are refused.
ncclResult_t join(Clique& clique, int rank, int size) {
  clique.places[static_cast<std::size_t>(rank)] = place();
  ++clique.joined;
  while (clique.joined < size) std::this_thread::sleep_for(std::chrono::microseconds(100));
  for (int other = 0; other < size; ++other) {
    if (other != rank && clique.places[static_cast<std::size_t>(other)] ==
                             clique.places[static_cast<std::size_t>(rank)]) {
      return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(rank) +
                                          " and rank " + std::to_string(other));
    }
  }
  return ncclSuccess;
}

void wait_for_work(const Comm& comm) {
  while (comm.under_way.load(std::memory_order_relaxed) > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace

extern "C" {

/// For tests: sets the calls that fail from now on.
void standin_nccl_faults(const char* words) {
  const Unseen unseen;
  const std::lock_guard lock(faults_mutex);
  faults() = Faults(words);
}

/// For tests: returns how often this function was called since the faults were set. Calls that hang
/// count, too.
int standin_nccl_calls(const char* function) {
  const Unseen unseen;
  const std::lock_guard lock(faults_mutex);
  return faults().calls(function);
}

ncclResult_t ncclGetVersion(int* version) {
  const std::string played = variable("STANDIN_NCCL_VERSION");
  *version = played.empty() ? NCCL_VERSION_CODE : std::stoi(played);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "internal error";
  }
}

const char* ncclGetLastError(ncclComm_t handle) {
  if (handle != nullptr && comm_of(handle)->clique->has_text) {
    return comm_of(handle)->clique->text.data();
  }
  return last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::string name = make_clique();
  if (name.empty()) return refuse(ncclSystemError, "no file for the clique");
  *id = {};
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (const auto fault = next_fault("ncclCommInitRankConfig")) {
    if (fault->kind != Fault::Kind::hang) {
      return refuse(static_cast<ncclResult_t>(fault->error), "ncclCommInitRankConfig: planned");
    }
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  int version = 0;
  ncclGetVersion(&version);
  if (config->magic != 0xcafebeef || static_cast<int>(config->version) > version) {
    return refuse(ncclInvalidArgument, "a config of a later version");
  }
  if (size < 1 || size > most_ranks || rank < 0 || rank >= size || place() == 0) {
    return refuse(ncclInvalidArgument, "bad rank or size, or no current context");
  }
  Clique* const clique = map_clique(id.internal);
  if (clique == nullptr) return refuse(ncclSystemError, "no such unique id");
  const ncclResult_t joined = join(*clique, rank, size);
  if (rank == 0) remove_clique(id.internal);
  if (joined != ncclSuccess) return joined;
  Comm* const made = make_comm();
  made->clique = clique;
  made->rank = rank;
  made->size = size;
  const std::string patience = variable("STANDIN_NCCL_PATIENCE");
  if (!patience.empty()) made->patience = std::chrono::duration<double>(std::stod(patience));
  *comm = reinterpret_cast<ncclComm_t>(made);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const Comm& comm = *comm_of(handle);
  const int own = comm.error.load(std::memory_order_relaxed);
  *error = static_cast<ncclResult_t>(own != 0 ? own : comm.clique->error.load());
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (const auto fault = next_fault("ncclCommAbort")) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  comm_of(handle)->aborted.store(true, std::memory_order_relaxed);
  wait_for_work(*comm_of(handle));
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (const auto fault = next_fault("ncclCommDestroy")) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  wait_for_work(*comm_of(handle));
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return refuse(ncclInvalidUsage, "no group is open");
  if (--depth == 0) flush();
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call("ncclSend", comm, stream, type, Kind::group, [&](Launch& launch) {
    launch.sends.push_back({peer, bytes_of(data), count});
  });
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call("ncclRecv", comm, stream, type, Kind::group, [&](Launch& launch) {
    launch.receives.push_back({peer, bytes_of(data), count});
  });
}

ncclResult_t ncclAllGather(const void* mine, void* all, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return call("ncclAllGather", comm, stream, type, Kind::all_gather, [&](Launch& launch) {
    for (int peer = 0; peer < comm_of(comm)->size; ++peer) {
      std::byte* const place = bytes_of(all) + static_cast<std::size_t>(peer) * count;
      launch.sends.push_back({peer, bytes_of(mine), count});
      launch.receives.push_back({peer, place, count});
    }
  });
}

}  // extern "C"
