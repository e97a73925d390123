// A job in which one rank goes wrong just before a certain call that it makes while its store is
// created or MPI is ended. The others print what create threw and exit with 42, or print that they
// finished.
//
//   creating RANK HOW CALL NUMBER [STORES]
//
// HOW     kill, exit (with 3), leave (with 0), throw, stop; files: gets no more descriptors, and
//         for DEAF_MS its MPI has nothing done; late: LATE_MS; local: creates a store of that type,
//         and stays until it is ended
// CALL    Init, idup, gather, Finalize: MPI's; send: of a descriptor to another process; create;
//         early: Init, while the others have not called create; time: NUMBER milliseconds after
//         the start, whatever it does then; it calls create COMES_MS after the start, and the rank
//         after it LAST_MS; none
//
// NUMBER  of such calls since the last store was made, from 1 on
//
// STORES  that were made in peace before, 0 if it is not said
//
// Each rank tries until it has its store, or until something else than its patience ends it. With
// OWN_MPI=1 the program itself starts MPI and ends it. STORE: the type, dist_sync_mpi if it is not
// said.
#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "tutti/tutti.h"
#include "variable.h"

namespace {

using namespace tutti;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int survivor_status = 42;
constexpr int victim_status = 3;

int own_rank() {
  return std::max(number_in("OMPI_COMM_WORLD_RANK"), number_in("DMLC_RANK"));
}

int size() {
  return std::max(number_in("OMPI_COMM_WORLD_SIZE"), number_in("DMLC_NUM_WORKER"));
}

std::string store_type() {
  const char* const type = std::getenv("STORE");
  return type == nullptr ? "dist_sync_mpi" : type;
}

/// The failure of this process, and when it happens.
struct Plan {
  std::string how;
  std::string call;
  int calls_left = 0;
  std::chrono::steady_clock::time_point deaf_until{};
};
Plan plan;

void use_up_descriptors() {
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = static_cast<rlim_t>(next);
  ::close(next);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void go_wrong() {
  // Gives the other ranks time to come.
  if (plan.call == "Init") std::this_thread::sleep_for(500ms);
  fmt::print("rank {} (process {}) goes wrong: {}\n", own_rank(), ::getpid(), plan.how);
  std::fflush(stdout);
  if (plan.how == "kill") ::raise(SIGKILL);
  if (plan.how == "exit") std::_Exit(victim_status);
  if (plan.how == "leave") std::_Exit(0);
  if (plan.how == "throw") throw std::runtime_error("nobody catches this");
  if (plan.how == "stop") ::kill(::getpid(), SIGSTOP);
  if (plan.how == "late") std::this_thread::sleep_for(milliseconds(number_in("LATE_MS")));
  if (plan.how == "files") {
    plan.deaf_until = std::chrono::steady_clock::now() + milliseconds(number_in("DEAF_MS"));
    use_up_descriptors();
  }
  if (plan.how == "local") {
    const auto alone = KVStore::create("local");
    ::pause();
  }
}

void before(std::string_view call) {
  if (plan.call == call && --plan.calls_left == 0) go_wrong();
}

/// Creates the store. Tries again until the others have come, or until this rank's patience has
/// ended.
std::unique_ptr<KVStore> create() {
  for (;;) {
    try {
      before("create");
      return KVStore::create(store_type());
    } catch (const Error& error) {
      fmt::print("rank {} caught {}: {}\n", own_rank(), name(error.code()), error.what());
      std::fflush(stdout);
      if (error.code() != ErrorCode::timeout) return nullptr;
    }
  }
}

/// The victim and the rank after it are late for create.
void come_in_time(int victim, const std::string& how, milliseconds when) {
  if (own_rank() == victim) {
    std::thread([how, when] {
      std::this_thread::sleep_for(when);
      plan.how = how;
      go_wrong();
    }).detach();
    std::this_thread::sleep_for(milliseconds(number_in("COMES_MS")));
  } else if (own_rank() == (victim + 1) % size()) {
    std::this_thread::sleep_for(milliseconds(number_in("LAST_MS")));
  }
}

bool sums_right(KVStore& store) {
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  store.pushpull("key", tensor, tensor).wait();
  return value == static_cast<float>(store.num_workers());
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): in the place of these functions, for libtutti too.
extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int wanted, int* provided) {
  before("Init");
  before("early");
  return PMPI_Init_thread(argc, argv, wanted, provided);
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* copy, MPI_Request* request) {
  before("idup");
  return PMPI_Comm_idup(comm, copy, request);
}

int MPI_Iallgather(const void* mine, int count, MPI_Datatype type, void* all, int counts,
                   MPI_Datatype types, MPI_Comm comm, MPI_Request* request) {
  before("gather");
  return PMPI_Iallgather(mine, count, type, all, counts, types, comm, request);
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  *done = 0;
  if (std::chrono::steady_clock::now() < plan.deaf_until) return MPI_SUCCESS;
  return PMPI_Test(request, done, status);
}

int MPI_Finalize() {
  before("Finalize");
  return PMPI_Finalize();
}

// The program's own functions are hidden; this one must be seen by libtutti.
[[gnu::visibility("default")]] ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  // MPI's start has messages of its own.
  if (message->msg_controllen > 0 && (flags & MSG_NOSIGNAL) != 0) before("send");
  return ::syscall(SYS_sendmsg, socket, message, flags);
}
}
// NOLINTEND(readability-identifier-naming)

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const bool owns_mpi = number_in("OWN_MPI") != 0;
  if (owns_mpi) MPI_Init(&argc, &argv);
  for (int i = argc > 5 ? std::atoi(argv[5]) : 0; i > 0; --i) {
    if (!sums_right(*KVStore::create("dist_sync_mpi"))) return 1;
  }
  const int victim = std::atoi(argv[1]);
  if (std::string_view(argv[3]) == "time") {
    come_in_time(victim, argv[2], milliseconds(std::atoi(argv[4])));
  } else if (own_rank() == victim) {
    plan = {argv[2], argv[3], std::atoi(argv[4])};
  } else if (std::string_view(argv[3]) == "early") {
    std::this_thread::sleep_for(1s);
  }
  auto store = create();
  if (!store) return survivor_status;
  if (!sums_right(*store)) return 1;
  store.reset();
  fmt::print("rank {} finished, and its sum was right\n", own_rank());
  std::fflush(stdout);
  if (owns_mpi) MPI_Finalize();
  // The others end meanwhile, which is no loss: what MPI waited for is over.
  if (own_rank() == 0) std::this_thread::sleep_for(milliseconds(number_in("AFTERWARDS_MS")));
}
