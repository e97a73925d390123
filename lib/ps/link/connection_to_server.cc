#include "ps/link/connection_to_server.h"

#include <utility>

#include "net/sockets.h"
#include "ps/protocol/wire.h"

namespace tutti::ps {

void ConnectionToServer::connect(net::ProvenPeer peer, const base::Patience& patience) {
  if (!net::is_nearby(peer.socket)) net::tune_data_link(peer.socket);
  if (keeps()) return channel_.connect(std::move(peer));
  log_connection(ends_, terms_, net::peer_address(peer.socket));
  link_.emplace(std::move(peer), poller_, token_, patience);
}

std::size_t ConnectionToServer::send(const ToServer& message, std::size_t answer_bytes,
                                     bool stays) {
  if (!keeps()) {
    const std::size_t bytes = link_ ? link_->send(message, answer_bytes, stays) : 0;
    log_message(ends_, terms_, "to", bytes);
    return bytes;
  }
  net::Bytes bytes = encode(message);
  const std::size_t size = bytes.size();
  channel_.send(std::move(bytes));
  return size;
}

std::optional<std::string> ConnectionToServer::receive(
    const std::function<void(const Answer&)>& take) {
  if (keeps()) {
    return channel_.receive([&](net::ConstBytes bytes) { take(decode_answer(bytes)); });
  }
  if (!link_) return std::nullopt;
  return link_->receive([&](const Answer& answer) {
    log_message(ends_, terms_, "from", answer.data.size());
    take(answer);
  });
}

void ConnectionToServer::abandon() {
  channel_.abandon();
  if (link_) link_->abandon();
}

}  // namespace tutti::ps
