#pragma once
#include <string>

#include "p2p/endpoint.h"
#include "tutti/error.h"

// The texts of an endpoint about its calls.
namespace tutti::p2p {

/// "6 elements of f32".
std::string text_of(DType dtype, std::uint64_t count);
/// "send of 6 elements of f32 with tag 3 from rank 0 to rank 1". `rank` is the rank whose call it
/// is.
std::string text_of_send(int rank, const Envelope& envelope);
/// `from` is the rank whose send the receive has met. `any_peer`: it has met none yet.
std::string text_of_receive(int rank, const Envelope& envelope, int from = any_peer);

// These functions return the errors with which `call`, one of these texts, ends.

/// `did` says what the other rank does instead: "sends 4 elements of f64".
Error mismatch(const std::string& call, int rank, int other, const std::string& did);
/// `counterpart` is the call that did not come.
Error late(const std::string& call, int other, const char* counterpart, SessionTime limit);
/// `counterpart` is the call of the other rank, which that rank had given up.
Error given_up(const std::string& call, int other, const char* counterpart, SessionTime limit);
/// The two calls have met, but no element moves.
Error stalled(const std::string& call, int other, SessionTime limit);
Error gone(const std::string& call, int other);
Error closed(const std::string& call, int rank);

}  // namespace tutti::p2p
