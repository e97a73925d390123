#include "create_steps.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <sys/socket.h>

#include <thread>
#include <utility>

#include "variable.h"

namespace {

using fault::CreateStep;

struct Plan {
  CreateStep step = CreateStep::none;
  std::function<void()> act;
  std::thread::id thread;
  int skip = 0;
};

Plan& plan() {
  static Plan only;
  return only;
}

void come_to(CreateStep step) {
  // MPI's own threads call these, too.
  if (plan().step != step || std::this_thread::get_id() != plan().thread) return;
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised == 0 || plan().skip-- > 0) return;
  plan().step = CreateStep::none;
  plan().act();
}

template <class Function>
Function* next(const char* name, Function* /*type*/) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// The node's leader first reserves the segment of the control plane, alone.
bool is_leader() {
  return number_in("OMPI_COMM_WORLD_LOCAL_RANK") == 0;
}

}  // namespace

namespace fault {

void at_create_step(CreateStep step, std::function<void()> act) {
  plan() = {.step = step,
            .act = std::move(act),
            .thread = std::this_thread::get_id(),
            .skip = step == CreateStep::reserve && is_leader() ? 1 : 0};
}

}  // namespace fault

// NOLINTBEGIN(readability-identifier-naming): these are called in the place of MPI's and the
// system's functions.
extern "C" {

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
  come_to(CreateStep::duplicate);
  return PMPI_Comm_idup(comm, made, request);
}

int MPI_Iallgather(const void* mine, int count, MPI_Datatype type, void* all, int all_count,
                   MPI_Datatype all_type, MPI_Comm comm, MPI_Request* request) {
  come_to(CreateStep::compare);
  return PMPI_Iallgather(mine, count, type, all, all_count, all_type, comm, request);
}

[[gnu::visibility("default")]] int connect(int socket, const sockaddr* to, socklen_t size) {
  come_to(CreateStep::connect);
  static const auto call = next("connect", &connect);
  return call(socket, to, size);
}

[[gnu::visibility("default")]] int accept4(int socket, sockaddr* from, socklen_t* size, int flags) {
  come_to(CreateStep::connect);
  static const auto call = next("accept4", &accept4);
  return call(socket, from, size, flags);
}

/// On systems with large files, posix_fallocate has this name.
[[gnu::visibility("default")]] int posix_fallocate64(int file, off64_t begin, off64_t bytes) {
  come_to(CreateStep::reserve);
  static const auto call = next("posix_fallocate64", &posix_fallocate64);
  return call(file, begin, bytes);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
