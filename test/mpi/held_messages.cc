#include "held_messages.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Message {
  std::vector<std::byte> data;
  int to = 0;
  int tag = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  Clock::time_point due;
  MPI_Request request = MPI_REQUEST_NULL;
};

/// Any socket takes them, if it takes anything.
constexpr int small_bytes = 4096;

std::atomic<std::chrono::milliseconds> hold_for{};
std::atomic<int> only_bytes{0};  ///< 0: all but small messages
std::atomic<int> probed{0};
std::mutex mutex;
std::deque<Message> held, sent;  // in the order in which they were given

void send_what_is_due() {
  const std::lock_guard lock(mutex);
  while (!held.empty() && held.front().due <= Clock::now()) {
    Message& message = sent.emplace_back(std::move(held.front()));
    held.pop_front();
    PMPI_Isend(message.data.data(), static_cast<int>(message.data.size()), MPI_BYTE, message.to,
               message.tag, message.comm, &message.request);
  }
  for (int done = 1; done != 0 && !sent.empty();) {
    PMPI_Test(&sent.front().request, &done, MPI_STATUS_IGNORE);
    if (done != 0) sent.pop_front();
  }
}

/// Whether a message goes out at once. Those that follow a message that is held are held, too: all
/// of them, or those of its communicator.
bool goes_now(int bytes, MPI_Comm comm) {
  const bool wanted = only_bytes == 0 ? bytes > small_bytes : bytes == only_bytes;
  if (wanted && hold_for.load().count() != 0) return false;
  return std::none_of(held.begin(), held.end(), [&](const Message& message) {
    return only_bytes == 0 || message.comm == comm;
  });
}

/// A request that is complete.
int complete(MPI_Request* request) {
  const auto query = [](void* /*state*/, MPI_Status* status) {
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    return MPI_Status_set_cancelled(status, 0);
  };
  const auto free = [](void* /*state*/) { return MPI_SUCCESS; };
  const auto cancel = [](void* /*state*/, int /*done*/) { return MPI_SUCCESS; };
  MPI_Grequest_start(query, free, cancel, nullptr, request);
  return MPI_Grequest_complete(*request);
}

}  // namespace

void hold_messages(std::chrono::milliseconds time) {
  hold_messages(time, 0);
}

void hold_messages(std::chrono::milliseconds time, std::size_t bytes) {
  only_bytes = static_cast<int>(bytes);
  hold_for = time;
}

int probes() {
  return probed;
}

// NOLINTBEGIN(readability-identifier-naming): MPI's functions, in the place of which these are
// called.
extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  send_what_is_due();
  const std::lock_guard lock(mutex);
  if (goes_now(count, comm)) return PMPI_Isend(data, count, type, to, tag, comm, request);
  const auto* const bytes = static_cast<const std::byte*>(data);
  const auto due = Clock::now() + hold_for.load();
  held.push_back({{bytes, bytes + count}, to, tag, comm, due, MPI_REQUEST_NULL});
  return complete(request);
}

int MPI_Testsome(int count, MPI_Request* requests, int* finished, int* indices,
                 MPI_Status* statuses) {
  send_what_is_due();
  return PMPI_Testsome(count, requests, finished, indices, statuses);
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  send_what_is_due();
  return PMPI_Test(request, done, status);
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* arrived, MPI_Status* status) {
  ++probed;
  send_what_is_due();
  return PMPI_Iprobe(from, tag, comm, arrived, status);
}
}
// NOLINTEND(readability-identifier-naming)
