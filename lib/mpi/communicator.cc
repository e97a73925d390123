#include "mpi/communicator.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/doorbell.h"
#include "base/failure.h"
#include "base/mutex.h"
#include "mpi/checked.h"
#include "mpi/handle.h"
#include "mpi/library.h"
#include "tutti/error.h"

namespace tutti::mpi {
namespace {

/// Open MPI looks at its sockets in one of so many calls.
constexpr int calls_a_look = 8;

/// Looks at a request until it is done, and returns true: often at first, then ever less, at most
/// 2 ms apart, so that ranks that wait long for a late one leave it the processor. False: `limit`
/// has passed.
bool done_within(std::chrono::milliseconds limit, MPI_Request& request, const char* call) {
  base::Doorbell never;
  const auto start = base::Clock::now();
  for (;;) {
    for (int i = 0; i < calls_a_look; ++i) {
      int done = 0;
      checked(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
      if (done != 0) return true;
    }
    const auto now = base::Clock::now();
    const auto waited = now - start;
    if (waited > limit) return false;
    if (waited < std::chrono::microseconds(100)) {
      std::this_thread::yield();
    } else {
      never.wait(never.ticket(),
                 now + std::min<base::Clock::duration>(waited / 8, std::chrono::milliseconds(2)));
    }
  }
}

/// MPI is one per process, and so is what calls that never ended may still read and write.
void keep_for_ever(std::shared_ptr<void> state) {
  struct Kept {
    base::Mutex mutex;
    std::list<std::shared_ptr<void>> states TUTTI_GUARDED_BY(mutex);
  };
  static auto* const kept = new Kept;
  const base::Lock lock(kept->mutex);
  kept->states.push_back(std::move(state));
}

/// Waits for a collective call that reads and writes what `state` owns. MPI cannot cancel one: when
/// the patience ends, the state is kept for the rest of the process, and MPI, which cannot be
/// finalised with a call open, is abandoned.
template <class State>
void wait_for(MPI_Request& request, const char* call, std::unique_ptr<State>& state,
              std::chrono::milliseconds limit, const std::string& waiting_for) {
  if (done_within(limit, request, call)) return;
  keep_for_ever(std::shared_ptr<void>(std::move(state)));
  abandon();
  throw Error(ErrorCode::timeout,
              fmt::format("waited {} ms for {} (create_timeout, TUTTI_CREATE_SECONDS)",
                          limit.count(), waiting_for));
}

/// MPI takes counts as int; this is the one place where create-time sizes are narrowed.
int narrow(std::size_t bytes) {
  base::check(bytes <= INT32_MAX, "what ranks tell each other at create fits 2 GiB");
  return static_cast<int>(bytes);
}

/// What MPI reads and writes in an all_gather.
struct Gather {
  Gather(const std::string& text, std::size_t ranks)
      : mine(text), length(narrow(text.size())), lengths(ranks), offsets(ranks) {}

  void lay_out() {
    std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
    all.resize(std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}));
    static_cast<void>(narrow(all.size()));
  }

  std::string mine;
  int length;
  std::vector<int> lengths;
  std::vector<int> offsets;
  std::string all;
};

/// MPI is one per process, and so is the count of the communicators made on it.
int next_creation_number() {
  static std::atomic<int> count{0};
  return count.fetch_add(1);
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;

Communicator Communicator::world(std::chrono::milliseconds limit) {
  auto handle = std::make_unique<Handle>();
  handle->creation_number = next_creation_number();
  MPI_Request request = MPI_REQUEST_NULL;
  checked(MPI_Comm_idup(MPI_COMM_WORLD, &handle->comm, &request), "MPI_Comm_idup");
  wait_for(request, "MPI_Comm_idup", handle, limit, "every rank to create its store");
  checked(MPI_Comm_set_errhandler(handle->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  checked(MPI_Comm_rank(handle->comm, &handle->rank), "MPI_Comm_rank");
  checked(MPI_Comm_size(handle->comm, &handle->size), "MPI_Comm_size");
  return Communicator(std::move(handle));
}

Communicator::~Communicator() {
  if (!handle_ || handle_->abandoned || handle_->comm == MPI_COMM_NULL) return;
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised == 0) MPI_Comm_free(&handle_->comm);
}

int Communicator::rank() const {
  return handle_->rank;
}
int Communicator::size() const {
  return handle_->size;
}
int Communicator::creation_number() const {
  return handle_->creation_number;
}
bool Communicator::may_use_any_thread() const {
  int level = MPI_THREAD_SINGLE;
  checked(MPI_Query_thread(&level), "MPI_Query_thread");
  return level >= MPI_THREAD_SERIALIZED;
}

void Communicator::progress() const {
  for (int i = 0; i < calls_a_look; ++i) {
    int arrived = 0;
    checked(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, handle_->comm, &arrived, MPI_STATUS_IGNORE),
            "MPI_Iprobe");
  }
}

void Communicator::abandon() {
  handle_->abandoned = true;
}

std::vector<std::string> Communicator::all_gather(const std::string& mine,
                                                  std::chrono::milliseconds limit,
                                                  const std::string& waiting_for) const {
  const auto ranks = static_cast<std::size_t>(handle_->size);
  auto given = std::make_unique<Gather>(mine, ranks);
  MPI_Request request = MPI_REQUEST_NULL;
  checked(MPI_Iallgather(&given->length, 1, MPI_INT, given->lengths.data(), 1, MPI_INT,
                         handle_->comm, &request),
          "MPI_Iallgather");
  wait_for(request, "MPI_Iallgather", given, limit, waiting_for);
  given->lay_out();
  checked(MPI_Iallgatherv(given->mine.data(), given->length, MPI_CHAR, given->all.data(),
                          given->lengths.data(), given->offsets.data(), MPI_CHAR, handle_->comm,
                          &request),
          "MPI_Iallgatherv");
  wait_for(request, "MPI_Iallgatherv", given, limit, waiting_for);
  std::vector<std::string> texts;
  texts.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    texts.push_back(given->all.substr(static_cast<std::size_t>(given->offsets[rank]),
                                      static_cast<std::size_t>(given->lengths[rank])));
  }
  return texts;
}

}  // namespace tutti::mpi
