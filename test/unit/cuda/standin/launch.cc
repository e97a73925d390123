#include "launch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <nccl.h>

namespace standin {
namespace {

std::string name(std::uint32_t kind) {
  return static_cast<Kind>(kind) == Kind::group ? "a send" : "an all-gather";
}

}  // namespace

std::size_t Launch::bytes() const {
  std::size_t sum = 0;
  for (const Transfer& transfer : receives) sum += transfer.bytes;
  return sum;
}

void Launch::run() {
  if (fault && fault->kind == Fault::Kind::late) comm->error = fault->error;
  const bool hangs = fault.has_value();
  comm->clique->come[static_cast<std::size_t>(comm->rank)] = number;
  const auto start = std::chrono::steady_clock::now();
  while (!comm->aborted.load(std::memory_order_relaxed)) {
    const bool struck =
        comm->clique->error != 0 || comm->error.load(std::memory_order_relaxed) != 0;
    if (struck || hangs) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      continue;
    }
    if (advance()) return;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (comm->patience.count() > 0 && waited > comm->patience) name_absent();
    std::this_thread::yield();
  }
}

/// Between two ranks one transfer follows the other.
bool Launch::advance() {
  std::array<bool, most_ranks> is_sending{};
  std::array<bool, most_ranks> is_receiving{};
  bool all = true;
  for (Transfer& transfer : sends) {
    bool& busy = is_sending[static_cast<std::size_t>(transfer.peer)];
    busy = busy || !send(transfer);
    all = all && !busy;
  }
  for (Transfer& transfer : receives) {
    bool& busy = is_receiving[static_cast<std::size_t>(transfer.peer)];
    busy = busy || !receive(transfer);
    all = all && !busy;
  }
  return all;
}

/// Sends the next chunk if there is room. True: all is sent.
bool Launch::send(Transfer& transfer) const {
  if (transfer.done == transfer.bytes) return true;
  Channel& channel =
      comm->clique
          ->channels[static_cast<std::size_t>(comm->rank)][static_cast<std::size_t>(transfer.peer)];
  const std::uint64_t sent = channel.sent.load(std::memory_order_relaxed);
  if (sent - channel.received.load(std::memory_order_acquire) == Channel::depth) return false;
  Chunk& chunk = channel.chunks[sent % Channel::depth];
  const std::size_t bytes = std::min(Chunk::capacity, transfer.bytes - transfer.done);
  chunk.launch = number;
  chunk.kind = static_cast<std::uint32_t>(kind);
  chunk.bytes = static_cast<std::uint32_t>(bytes);
  chunk.total = transfer.bytes;
  std::memcpy(chunk.data.data(), transfer.data + transfer.done, bytes);
  channel.sent.store(sent + 1, std::memory_order_release);
  transfer.done += bytes;
  return transfer.done == transfer.bytes;
}

/// Receives the next chunk if it is there. True: all is received.
bool Launch::receive(Transfer& transfer) const {
  if (transfer.done == transfer.bytes) return true;
  Channel& channel =
      comm->clique
          ->channels[static_cast<std::size_t>(transfer.peer)][static_cast<std::size_t>(comm->rank)];
  const std::uint64_t received = channel.received.load(std::memory_order_relaxed);
  if (channel.sent.load(std::memory_order_acquire) == received) return false;
  const Chunk& chunk = channel.chunks[received % Channel::depth];
  if (!fits(chunk, transfer)) return false;
  std::memcpy(transfer.data + transfer.done, chunk.data.data(), chunk.bytes);
  transfer.done += chunk.bytes;
  channel.received.store(received + 1, std::memory_order_release);
  return transfer.done == transfer.bytes;
}

bool Launch::fits(const Chunk& chunk, const Transfer& transfer) const {
  if (chunk.launch == number && chunk.kind == static_cast<std::uint32_t>(kind) &&
      chunk.total == transfer.bytes) {
    return true;
  }
  comm->clique->strike(
      ncclInvalidUsage,
      "launches in another order: rank " + std::to_string(comm->rank) + " awaits " +
          std::to_string(transfer.bytes) + " bytes of " + name(static_cast<std::uint32_t>(kind)) +
          " from rank " + std::to_string(transfer.peer) + " in its launch " +
          std::to_string(number) + ", but gets " + std::to_string(chunk.total) + " bytes of " +
          name(chunk.kind) + " of launch " + std::to_string(chunk.launch));
  return false;
}

/// Names a peer for whom the launch waits. It is one that has not come to this launch, if any.
void Launch::name_absent() const {
  int absent = -1;
  std::uint64_t come = 0;
  for (const std::vector<Transfer>* const transfers : {&receives, &sends}) {
    for (const Transfer& transfer : *transfers) {
      const std::uint64_t last = comm->clique->come[static_cast<std::size_t>(transfer.peer)];
      if (transfer.done == transfer.bytes || (absent >= 0 && last >= come)) continue;
      absent = transfer.peer;
      come = last;
    }
  }
  comm->clique->strike(ncclInvalidUsage, "rank " + std::to_string(comm->rank) +
                                             " waits in its launch " + std::to_string(number) +
                                             " for rank " + std::to_string(absent) +
                                             ", which has come to launch " + std::to_string(come));
}

}  // namespace standin
