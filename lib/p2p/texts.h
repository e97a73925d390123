#pragma once
#include <string>

#include "p2p/endpoint.h"
#include "tutti/error.h"

// An endpoint's texts on its calls.
namespace tutti::p2p {

/// "6 elements of f32".
std::string text_of(DType dtype, std::uint64_t count);
/// "send of 6 elements of f32 with tag 3 from rank 0 to rank 1". `rank`: whose call it is.
std::string text_of_send(int rank, const Envelope& envelope);
/// `from`: whose send it has met; `any_peer`: none yet.
std::string text_of_receive(int rank, const Envelope& envelope, int from = any_peer);

// How `call`, one of these texts, ends.

/// `did`: what the other rank does instead, as "sends 4 elements of f64".
Error mismatch(const std::string& call, int rank, int other, const std::string& did);
/// `counterpart`: the call that did not come.
Error late(const std::string& call, int other, const char* counterpart, Time limit);
/// `counterpart`: the other rank's call, which that rank had given up.
Error given_up(const std::string& call, int other, const char* counterpart, Time limit);
/// The two have met, but no element moves.
Error stalled(const std::string& call, int other, Time limit);
Error gone(const std::string& call, int other);
Error closed(const std::string& call, int rank);

}  // namespace tutti::p2p
