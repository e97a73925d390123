#include "net/connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "tutti/error.h"

namespace tutti::net {

Connection::Connection(ProvenPeer peer)
    : peer_(peer.rank),
      socket_(std::move(peer.socket)),
      out_({peer.send_key, peer.encrypts}),
      in_({peer.receive_key, peer.encrypts}) {}

void Connection::flush() {
  if (out_.write(socket_)) return;
  out_.discard();
  // The socket may still deliver bytes, but messages to the peer are lost. So this ends the
  // connection.
  ::shutdown(socket_.get(), SHUT_RDWR);
}

std::optional<std::string> Connection::receive() {
  // The number of reads is limited, so that one busy link does not keep the thread from the others.
  for (int i = 0; i < 16; ++i) {
    try {
      const ssize_t count = in_.read(socket_);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return std::nullopt;
      if (count == 0) return "it was closed";
      if (count < 0) return std::generic_category().message(errno);
      if (in_.is_drained()) return std::nullopt;
    } catch (const Error& refusal) {
      has_refused_ = true;
      return refusal.what();
    }
  }
  return std::nullopt;
}

void Connection::finish_writing() {
  ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace tutti::net
