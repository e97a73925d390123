#include "ps/link/link_to_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "net/sockets.h"
#include "ps/protocol/wire.h"

namespace tutti::ps {
namespace {

/// Returns nothing if the server has no memory to share, or if this process has no room for it.
std::optional<Rooms> rooms_of(const net::ProvenPeer& server, const base::Patience& patience) {
  if (!net::is_nearby(server.socket)) return std::nullopt;
  const std::string who = fmt::format("server {}", server.rank);
  try {
    return std::optional<Rooms>(net::receive_descriptor(server.socket, who, patience));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::internal) throw;
    base::log().warn("this worker shares no memory with {}: {}", who, error.what());
    return std::nullopt;
  }
}

}  // namespace

LinkToServer::LinkToServer(net::ProvenPeer peer, net::Poller& poller, std::uint64_t token,
                           const base::Patience& patience)
    : rooms_(rooms_of(peer, patience)), link_(std::move(peer), poller, token, net::Bytes()) {}

std::size_t LinkToServer::send(ToServer message, std::size_t answer_bytes, bool stays) {
  const std::size_t brought = elements_of(message).size();
  if (rooms_) move_in(message, answer_bytes);
  const std::vector<std::byte> head = encode_head(message);
  const auto elements = elements_of(message);
  link_.queue(head, stays ? net::Slice{elements} : net::kept({elements.begin(), elements.end()}));
  return head.size() + brought;
}

/// If there is no room, elements travel in the message. The worker must not wait for answers to
/// free a room: these may wait for other workers, which may wait for this worker's next request.
void LinkToServer::move_in(ToServer& message, std::size_t answer_bytes) {
  auto* const said = std::get_if<Contribution>(&message);
  auto* const pull = std::get_if<Pull>(&message);
  if (said == nullptr && pull == nullptr) return;
  const std::size_t brought = said != nullptr ? said->data.size() : 0;
  const std::size_t wanted = std::max(brought, answer_bytes);
  if (wanted < least_room_bytes) return;
  auto room = rooms_->take(wanted);
  if (!room) return;
  lent_.emplace(said != nullptr ? said->sequence : pull->sequence, *room);
  if (pull != nullptr) {
    pull->room = room;
    return;
  }
  std::ranges::copy(said->data, rooms_->at(*room).begin());
  room->filled = brought;
  said->room = room;
  said->data = {};
}

std::optional<std::string> LinkToServer::receive(const std::function<void(const Answer&)>& take) {
  return link_.receive_parcels([&](const net::Parcel& parcel) {
    if (parcel.head.empty() && !parcel.body) return;
    Answer answer = parcel.head.empty() ? decode_answer(parcel.body_span())
                                        : decode_answer(parcel.head, parcel.body_span());
    find_elements(answer);
    take(answer);
    settle(answer.sequence);
  });
}

void LinkToServer::find_elements(Answer& answer) const {
  if (!answer.room) return;
  const auto lent = lent_.find(answer.sequence);
  if (lent == lent_.end() || answer.room->filled > lent->second.bytes || !answer.data.empty()) {
    throw Error(ErrorCode::internal, fmt::format("answer {} has {} bytes in a room that it was not "
                                                 "given",
                                                 answer.sequence, answer.room->filled));
  }
  answer.data = rooms_->at(lent->second).first(answer.room->filled);
}

void LinkToServer::settle(std::uint64_t sequence) {
  const auto lent = lent_.find(sequence);
  if (lent == lent_.end()) return;
  rooms_->give_back(lent->second);
  lent_.erase(lent);
}

}  // namespace tutti::ps
