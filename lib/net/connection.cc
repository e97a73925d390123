#include "net/connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "tutti/error.h"

namespace tutti::net {

Connection::Connection(ProvenPeer peer)
    : peer_(peer.rank),
      socket_(std::move(peer.socket)),
      sealer_({peer.send_key, peer.encrypts}),
      opener_({peer.receive_key, peer.encrypts}) {}

void Connection::flush() {
  if (!queued_.empty()) {
    sealed_.clear();
    sealer_.seal(queued_, sealed_);
    queued_.clear();
    wire_.feed(sealed_);
  }
  while (!wire_.empty()) {
    const ConstBytes rest = wire_.rest();
    const ssize_t count = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    wire_.use(count < 0 ? rest.size() : static_cast<std::size_t>(count));
  }
}

void Connection::open_frames() {
  while (const auto payload = opener_.next()) {
    ++frames_received_;
    messages_.feed(*payload);
  }
}

std::optional<std::string> Connection::receive() {
  // Bounded, so that one busy link does not keep the thread from the others.
  std::array<std::byte, std::size_t{16} << 10> raw;
  for (int i = 0; i < 16; ++i) {
    const ssize_t count = ::recv(socket_.get(), raw.data(), raw.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return std::nullopt;
    if (count == 0) return "it was closed";
    if (count < 0) return std::generic_category().message(errno);
    opener_.feed(ConstBytes(raw.data(), static_cast<std::size_t>(count)));
    try {
      open_frames();
    } catch (const Error& refusal) {
      return refusal.what();
    }
  }
  return std::nullopt;
}

void Connection::finish_writing() {
  ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace tutti::net
