#include "p2p/texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/wait_limits.h"

namespace tutti::p2p {

std::string text_of(DType dtype, std::uint64_t count) {
  return fmt::format("{} element{} of {}", count, count == 1 ? "" : "s", name(dtype));
}

std::string text_of_send(int rank, const Envelope& envelope) {
  return fmt::format("send of {} with tag {} from rank {} to rank {}",
                     text_of(envelope.dtype, envelope.count), envelope.tag, rank, envelope.peer);
}

std::string text_of_receive(int rank, const Envelope& envelope, int from) {
  const int peer = from == any_peer ? envelope.peer : from;
  return fmt::format("recv of {} with tag {} by rank {} from {}",
                     text_of(envelope.dtype, envelope.count), envelope.tag, rank,
                     peer == any_peer ? "any rank" : fmt::format("rank {}", peer));
}

Error mismatch(const std::string& call, int rank, int other, const std::string& did) {
  // As in every mismatch, the error lists the rank whose value differs from that of the lowest
  // rank.
  return {ErrorCode::mismatch,
          fmt::format("{}: rank {} {}; give both calls the same dtype and number of elements", call,
                      other, did),
          {.key = {}, .ranks = {std::max(rank, other)}}};
}

Error late(const std::string& call, int other, const char* counterpart, SessionTime limit) {
  const std::string missing =
      other == any_peer ? "no rank made" : fmt::format("rank {} did not make", other);
  return {
      ErrorCode::timeout,
      fmt::format("{}: {} the {} for it within {}; both ranks must make their calls, with the same "
                  "tag",
                  call, missing, counterpart, base::key_limit(limit)),
      {.key = {}, .ranks = other == any_peer ? std::vector<int>() : std::vector<int>{other}}};
}

Error given_up(const std::string& call, int other, const char* counterpart, SessionTime limit) {
  return {
      ErrorCode::timeout,
      fmt::format("{}: rank {} gave up the {} for it after {}; both ranks must make their calls "
                  "again",
                  call, other, counterpart, base::key_limit(limit)),
      {.key = {}, .ranks = {other}}};
}

Error stalled(const std::string& call, int other, SessionTime limit) {
  return {
      ErrorCode::timeout,
      fmt::format("{}: both ranks have made their calls, but no element has moved for {}, which "
                  "is key_timeout (TUTTI_TIMEOUT_SECONDS) or a minute, whichever is longer; find "
                  "out what holds rank {} up, such as a callback that blocks, or the network to it",
                  call, base::seconds_text(limit), other),
      {.key = {}, .ranks = {other}}};
}

Error gone(const std::string& call, int other) {
  if (other == any_peer) {
    return {ErrorCode::aborted, fmt::format("{}: every other rank has left the store", call)};
  }
  return {ErrorCode::aborted,
          fmt::format("{}: rank {} has left the store", call, other),
          {.key = {}, .ranks = {other}}};
}

Error closed(const std::string& call, int rank) {
  return {ErrorCode::aborted,
          fmt::format("{}: rank {} has closed this store before the other rank made its call", call,
                      rank)};
}

}  // namespace tutti::p2p
