#include "net/handshake_wire.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "tutti/error.h"

namespace tutti::net::handshake {

Transcript::Transcript(const Identity& me, const HandshakeParameters& caller,
                       const HandshakeParameters& listener)
    : caller_(caller), listener_(listener), secret_(me.secret) {
  for (const HandshakeParameters* said : {&caller, &listener}) {
    append_u32(bytes_, static_cast<std::uint32_t>(said->rank));
    append_u32(bytes_, said->encrypts ? 1 : 0);
    append(bytes_, said->nonce);
  }
  append(bytes_, as_bytes(me.purpose));
}

std::string Transcript::disagreement(const HandshakeParameters& mine) const {
  if (caller_.encrypts == listener_.encrypts) return "";
  return mine.encrypts ? "it does not encrypt, and this end does: set TUTTI_ENCRYPT=1 for all "
                         "processes of the job, or for none"
                       : "it encrypts (TUTTI_ENCRYPT=1), and this end does not: set it for all "
                         "processes of the job, or for none";
}

ProvenPeer Transcript::callers_peer(base::Fd socket) const {
  return {listener_.rank, std::move(socket), key_up(), key_down(), caller_.encrypts};
}

ProvenPeer Transcript::listeners_peer(base::Fd socket) const {
  return {caller_.rank, std::move(socket), key_down(), key_up(), caller_.encrypts};
}

void send_all(const base::Fd& socket, ConstBytes bytes) {
  const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) {
    throw Error(ErrorCode::peer_lost, "the other end closed the connection during the handshake");
  }
}

bool receive_towards(const base::Fd& socket, Bytes& have, std::size_t wanted) {
  std::byte raw[64];
  const std::size_t most = std::min(sizeof raw, wanted - have.size());
  const ssize_t count = ::recv(socket.get(), raw, most, 0);
  const bool later = count < 0 && (errno == EAGAIN || errno == EINTR);
  if (count <= 0 && !later) {
    throw Error(ErrorCode::peer_lost, "the other end closed the connection during the handshake");
  }
  if (count > 0) append(have, ConstBytes(raw, static_cast<std::size_t>(count)));
  return have.size() == wanted;
}

}  // namespace tutti::net::handshake
