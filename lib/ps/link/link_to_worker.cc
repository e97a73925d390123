#include "ps/link/link_to_worker.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "net/sockets.h"
#include "ps/link/rooms.h"
#include "ps/protocol/wire.h"

namespace tutti::ps {
namespace {

struct SharedMemory {
  base::Fd file;
  std::shared_ptr<base::Mapping> mapping;
};

/// Returns nothing if the system refuses. Then elements travel over the connection.
SharedMemory new_memory(int worker) {
  try {
    base::Fd file = base::create_memory_file("ps", shared_bytes);
    auto mapping = base::map_file(file, shared_bytes);
    return {std::move(file), std::move(mapping)};
  } catch (const Error& error) {
    base::log().warn("this server shares no memory with worker {}: {}", worker, error.what());
    return {};
  }
}

/// The descriptor of the memory is the first that a fresh connection carries, so nothing waits.
std::shared_ptr<base::Mapping> share_with(const net::ProvenPeer& worker) {
  if (!net::is_nearby(worker.socket)) return nullptr;
  SharedMemory memory = new_memory(worker.rank);
  net::send_descriptor(worker.socket, memory.file, fmt::format("worker {}", worker.rank),
                       base::Clock::now() + std::chrono::seconds(1));
  return std::move(memory.mapping);
}

}  // namespace

LinkToWorker::LinkToWorker(net::ProvenPeer peer, net::Poller& poller, std::uint64_t token)
    : shared_(share_with(peer)), link_(std::move(peer), poller, token, net::Bytes()) {}

void LinkToWorker::send(Answer answer) {
  const std::size_t size = answer.data.size();
  // The room may be in memory that was shared over an earlier connection.
  if (!shared_) answer.room.reset();
  if (answer.room && size >= least_room_bytes && size <= answer.room->bytes) {
    std::memcpy(shared_->data() + answer.room->offset, answer.data.data(), size);
    answer.room->filled = size;
    answer.data = {};
  }
  net::Slice elements{answer.data, answer.keeper};
  if (!elements.keeper) elements = net::kept({answer.data.begin(), answer.data.end()});
  link_.queue(encode_head(answer), std::move(elements));
}

std::optional<std::string> LinkToWorker::receive(const std::function<void(const ToServer&)>& take) {
  return link_.receive_parcels([&](const net::Parcel& parcel) {
    if (parcel.head.empty() && !parcel.body) return;
    ToServer request = parcel.head.empty() ? decode_to_server(parcel.body_span())
                                           : decode_to_server(parcel.head, parcel.body_span());
    find_elements(request, parcel);
    take(request);
  });
}

/// Finds the elements where they arrived, or in the room into which the worker has put them.
void LinkToWorker::find_elements(ToServer& request, const net::Parcel& parcel) const {
  if (const auto* const pull = std::get_if<Pull>(&request)) {
    if (pull->room) check(*pull->room);
  }
  auto* const said = std::get_if<Contribution>(&request);
  if (said == nullptr) return;
  if (!said->room) {
    if (!parcel.head.empty()) said->keeper = parcel.body;
    return;
  }
  check(*said->room);
  if (!said->data.empty()) throw Error(ErrorCode::internal, "a message has elements in two places");
  said->place = {shared_->data() + said->room->offset, said->room->bytes};
  said->data = said->place.first(said->room->filled);
  said->keeper = shared_;
}

void LinkToWorker::check(const Room& room) const {
  const std::uint64_t size = shared_ ? shared_->size() : 0;
  if (room.offset <= size && room.bytes <= size - room.offset) return;
  throw Error(ErrorCode::internal, fmt::format("a room of {} bytes at {} does not fit in {} "
                                               "bytes of memory",
                                               room.bytes, room.offset, size));
}

}  // namespace tutti::ps
