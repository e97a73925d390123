#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "base/keep.h"
#include "mpi/checked.h"
#include "mpi/handle.h"

namespace tutti::mpi {
namespace {

/// The time for which the destructor waits for messages that MPI is moving. If the other rank lives
/// and has a processor, this takes microseconds.
constexpr auto patience = std::chrono::milliseconds(500);

}  // namespace

struct Requests::State {
  struct Transfer {
    bool sends = false;
    int peer = 0;
    std::size_t bytes = 0;
    std::size_t open_messages = 0;
    bool used = false;
  };

  MPI_Comm comm = MPI_COMM_NULL;
  const pid_t owner = ::getpid();
  std::vector<Transfer> transfers;
  std::vector<Id> free_ids;
  // One entry for each message: MPI's request, and the transfer to which it belongs.
  std::vector<MPI_Request> messages;
  std::vector<Id> owners;
  std::vector<int> finished;
  std::vector<std::shared_ptr<const void>> held;

  Id add(bool sends, int peer, std::size_t bytes) {
    if (free_ids.empty()) {
      free_ids.push_back(transfers.size());
      transfers.emplace_back();
    }
    const Id id = free_ids.back();
    free_ids.pop_back();
    transfers[id] = {sends, peer, bytes, 0, true};
    return id;
  }

  MPI_Request& add_message(Id id) {
    ++transfers[id].open_messages;
    owners.push_back(id);
    return messages.emplace_back(MPI_REQUEST_NULL);
  }

  /// Calls `post(offset, count, request)` for each message of a transfer; an empty transfer has one
  /// message.
  template <typename Post>
  void split(Id id, std::size_t bytes, const Post& post) {
    std::size_t offset = 0;
    do {
      const std::size_t count = std::min(bytes - offset, message_bytes);
      post(offset, static_cast<int>(count), add_message(id));
      offset += count;
    } while (offset < bytes);
  }

  /// Returns true if a message has finished.
  bool test_some() {
    const int count = static_cast<int>(messages.size());
    finished.resize(messages.size());
    int number = 0;
    checked(MPI_Testsome(count, messages.data(), &number, finished.data(), MPI_STATUSES_IGNORE),
            "MPI_Testsome");
    if (number == MPI_UNDEFINED || number == 0) return false;
    for (int i = 0; i < number; ++i) {
      const auto message = static_cast<std::size_t>(finished[static_cast<std::size_t>(i)]);
      --transfers[owners[message]].open_messages;
    }
    forget_finished();
    return true;
  }

  bool are_all_over(base::Clock::time_point deadline) {
    int all = 0;
    do {
      const int count = static_cast<int>(messages.size());
      if (MPI_Testall(count, messages.data(), &all, MPI_STATUSES_IGNORE) != MPI_SUCCESS) break;
    } while (all == 0 && base::Clock::now() < deadline);
    return all != 0;
  }

  void forget_finished() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (messages[i] == MPI_REQUEST_NULL) continue;
      messages[kept] = messages[i];
      owners[kept++] = owners[i];
    }
    messages.resize(kept);
    owners.resize(kept);
  }
};

Requests::Requests(const Communicator& communicator) : state_(std::make_unique<State>()) {
  state_->comm = communicator.handle().comm;
  hold(communicator.handle().held);
}

Requests::Requests(Requests&&) noexcept = default;

Requests::~Requests() {
  // In a forked child any MPI call would read from the parent's connections.
  if (!state_ || state_->owner != ::getpid()) return;
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised != 0) return;
  for (std::size_t i = 0; i < state_->messages.size(); ++i) {
    if (!state_->transfers[state_->owners[i]].sends) MPI_Cancel(&state_->messages[i]);
  }
  if (state_->are_all_over(base::Clock::now() + patience)) return;
  for (auto& buffers : state_->held) base::keep_for_good(std::move(buffers));
}

void Requests::hold(std::shared_ptr<const void> buffers) {
  state_->held.push_back(std::move(buffers));
}

Requests::Id Requests::send(int to, int tag, std::span<const std::byte> data) {
  const Id id = state_->add(true, to, data.size());
  state_->split(id, data.size(), [&](std::size_t offset, int count, MPI_Request& request) {
    checked(MPI_Isend(data.data() + offset, count, MPI_BYTE, to, tag, state_->comm, &request),
            [&] { return fmt::format("MPI_Isend of {} bytes to rank {}", data.size(), to); });
  });
  return id;
}

Requests::Id Requests::receive(int from, int tag, std::span<std::byte> data) {
  const Id id = state_->add(false, from, data.size());
  state_->split(id, data.size(), [&](std::size_t offset, int count, MPI_Request& request) {
    checked(MPI_Irecv(data.data() + offset, count, MPI_BYTE, from, tag, state_->comm, &request),
            [&] { return fmt::format("MPI_Irecv of {} bytes from rank {}", data.size(), from); });
  });
  return id;
}

bool Requests::progress() {
  if (state_->messages.empty()) return false;
  // Called twice, because Open MPI reports in one call the messages that the call before has
  // received. A thread that gets no report may sleep in between. With one call 1 MB on 8 hosts at 1
  // Gbit/s took 4 % longer.
  return state_->test_some() || state_->test_some();
}

bool Requests::take_finished(Id id) {
  State::Transfer& transfer = state_->transfers[id];
  base::check(transfer.used, "a transfer is asked for until it is done");
  if (transfer.open_messages > 0) return false;
  transfer.used = false;
  state_->free_ids.push_back(id);
  return true;
}

bool Requests::empty() const {
  return state_->messages.empty();
}

std::string Requests::describe() const {
  std::string text;
  for (const State::Transfer& transfer : state_->transfers) {
    if (!transfer.used || transfer.open_messages == 0) continue;
    text += fmt::format("{}{} of {} bytes {} rank {}", text.empty() ? "" : ", ",
                        transfer.sends ? "send" : "receive", transfer.bytes,
                        transfer.sends ? "to" : "from", transfer.peer);
  }
  return text.empty() ? "no transfer" : text;
}

}  // namespace tutti::mpi
