#include "ps/link/connection_to_worker.h"

#include <utility>

#include "net/sockets.h"
#include "ps/protocol/wire.h"
#include "tutti/error.h"

namespace tutti::ps {

void ConnectionToWorker::connect(net::ProvenPeer peer) {
  address_ = net::peer_address(peer.socket);
  // The scheduler decides which workers live, and not the end of this connection.
  if (!net::is_nearby(peer.socket)) net::tune_data_link(peer.socket);
  if (keeps()) return channel_.connect(std::move(peer));
  log_connection(ends_, terms_, address_);
  link_.emplace(std::move(peer), poller_, token_);
}

void ConnectionToWorker::send(const Answer& answer) {
  if (keeps()) return channel_.send(encode(answer));
  log_message(ends_, terms_, "to", answer.data.size());
  if (link_) link_->send(answer);
}

void ConnectionToWorker::set_reading(bool wanted) {
  if (keeps()) return channel_.set_reading(wanted);
  if (link_) link_->set_reading(wanted);
}

void ConnectionToWorker::receive(const Take& take) {
  if (keeps()) {
    const auto ended =
        channel_.receive([&](net::ConstBytes bytes) { take(decode_to_server(bytes), bytes); });
    if (ended && channel_.has_refused()) throw Error(ErrorCode::internal, *ended);
    return;
  }
  if (!link_) return;
  const auto ended = link_->receive([&](const ToServer& request) {
    log_message(ends_, terms_, "from", elements_of(request).size());
    take(request, {});
  });
  if (!ended) return;
  const bool has_refused = link_->has_refused();
  link_.reset();
  if (has_refused) throw Error(ErrorCode::internal, *ended);
}

}  // namespace tutti::ps
