#pragma once
// The parts that both sides of the handshake share. Only handshake_*.cc include this file.
#include <string_view>

#include "net/bytes.h"
#include "net/handshake.h"

namespace tutti::net::handshake {

/// Change it with every change of the handshake or of the frames.
inline constexpr std::string_view magic = "tutti/c3";
/// The hello holds the rank, and whether the caller encrypts, in four bytes each.
inline constexpr std::size_t hello_bytes = magic.size() + 4 + 4 + nonce_bytes;
inline constexpr std::size_t answer_bytes = 4 + nonce_bytes + mac_bytes;

/// The message by which one end introduces itself to the other.
struct HandshakeParameters {
  int rank = -1;
  bool encrypts = false;
  Nonce nonce{};
};

/// The data that both ends know after hello and answer. Proofs and keys are derived from it.
class Transcript {
 public:
  Transcript(const Identity& me, const HandshakeParameters& caller,
             const HandshakeParameters& listener);

  Mac callers_proof() const { return mac(secret_, {as_bytes("caller"), bytes_}); }
  Mac listeners_proof() const { return mac(secret_, {as_bytes("answer"), bytes_}); }
  /// Empty if the two ends agree on encryption. Otherwise the error, from the view of the end that
  /// `mine` describes.
  std::string disagreement(const HandshakeParameters& mine) const;
  ProvenPeer callers_peer(base::Fd socket) const;
  ProvenPeer listeners_peer(base::Fd socket) const;

 private:
  // All labels of proofs and keys have the same length, so that no two different inputs give the
  // hash the same bytes.
  Secret key_up() const { return derive_key(secret_, {as_bytes("upward"), bytes_}); }
  Secret key_down() const { return derive_key(secret_, {as_bytes("onward"), bytes_}); }

  HandshakeParameters caller_;
  HandshakeParameters listener_;
  Secret secret_;
  Bytes bytes_;
};

/// Throws `peer_lost` if the socket does not take all bytes: a handshake is so short that it fits
/// an empty buffer.
void send_all(const base::Fd& socket, ConstBytes bytes);

/// Reads until `have` holds `wanted` bytes, never more. Returns false if some are still missing.
/// Throws `peer_lost` at the end of the stream.
bool receive_towards(const base::Fd& socket, Bytes& have, std::size_t wanted);

}  // namespace tutti::net::handshake
