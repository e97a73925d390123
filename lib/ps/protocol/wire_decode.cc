// Decodes the messages between nodes and the scheduler.
#include <string>

#include "ps/protocol/wire.h"
#include "ps/protocol/wire_reading.h"

namespace tutti::ps {
namespace {

using ps::unpack;

std::vector<Held> unpack(const flatbuffers::Vector<Offset<wire::Held>>* list) {
  std::vector<Held> held;
  for (const wire::Held* one : needed(list)) {
    held.push_back({unpack(*one->piece()), one->count(), checked(one->dtype(), DType::i64)});
  }
  return held;
}

std::vector<Moment> unpack(const flatbuffers::Vector<const wire::Moment*>* list) {
  std::vector<Moment> moments;
  for (const wire::Moment* one : needed(list)) {
    moments.push_back({one->server(), one->rounds(), one->is_last()});
  }
  return moments;
}

/// No server has more than two states.
std::vector<Brought> unpack(const flatbuffers::Vector<Offset<wire::Brought>>* list) {
  std::vector<Brought> brings;
  if (needed(list).size() > 2) malformed("more states than a server may bring");
  for (const wire::Brought* one : *list) {
    brings.push_back({one->job(), unpack(one->held()), unpack(one->moments())});
  }
  return brings;
}

Register unpack(const wire::Register& from) {
  if (from.staleness() < unbounded) malformed("a bound below nothing");
  return {.role = checked(from.role(), Role::worker),
          .rank = from.rank(),
          .workers = from.workers(),
          .servers = from.servers(),
          .version = unpack(*from.version()),
          .asynchronous = from.asynchronous(),
          .address = unpack(*from.address()),
          .port = from.port(),
          .staleness = from.staleness(),
          .durable = from.durable(),
          .keeps = from.keeps(),
          .brings = unpack(from.brings()),
          .host = unpack(*from.host()),
          .process = from.process(),
          .membership = from.membership(),
          .host_identity = unpack(*from.host_identity())};
}

Locate unpack(const wire::Locate& from) {
  Locate locate;
  for (const wire::Value* value : needed(from.values())) {
    locate.values.push_back({unpack(*value->key()), value->count(),
                             checked(value->dtype(), DType::i64), value->whole()});
  }
  return locate;
}

Welcome unpack(const wire::Welcome& from) {
  if (from.local_rank() < 0 || from.local_rank() >= from.local_size() || from.hosts() < 1) {
    malformed("a place on no host");
  }
  Welcome welcome{.rank = from.rank(),
                  .asynchronous = from.asynchronous(),
                  .staleness = from.staleness(),
                  .job = from.job(),
                  .place = {from.local_rank(), from.local_size(), from.hosts()},
                  .begins_with = from.begins_with(),
                  .doubt = from.doubt()->str()};
  for (const wire::Server* server : needed(from.servers())) {
    welcome.servers.push_back(
        {unpack(*server->address()), server->port(), server->durable(), server->keeps()});
  }
  for (const wire::Key* key : needed(from.dropped())) welcome.dropped.push_back(unpack(*key));
  return welcome;
}

/// `most` is the number of servers for which the message has room, over all placements.
Located unpack(const wire::Located& from, std::size_t most) {
  Located located{{}, from.all()};
  // Counts the pieces of all values together. A piece whose server is not named also costs time and
  // memory.
  std::size_t most_unnamed = most_pieces;
  for (const wire::Placement* one : needed(from.placements())) {
    const auto& servers = needed(one->servers());
    if (servers.size() == 0) malformed("a value on no server");
    if (servers.size() > most) malformed("servers that are said many times");
    most -= servers.size();
    if (one->pieces() < servers.size()) malformed("fewer pieces than servers of a value");
    const std::size_t unnamed = one->pieces() - servers.size();
    if (one->pieces() > most_pieces || unnamed > most_unnamed) {
      malformed("values in too many pieces");
    }
    most_unnamed -= unnamed;
    located.placements.push_back(
        {unpack(*one->key()), {{servers.begin(), servers.end()}, one->pieces()}});
  }
  return located;
}

Lost unpack(const wire::Lost& from) {
  return {checked(from.role(), Role::worker), from.rank(), from.reason()->str()};
}

ReadOn unpack(const wire::ReadOn& from) {
  return {from.rank(), from.sequence()};
}

Returned unpack(const wire::Returned& from) {
  return {from.rank(), unpack(*from.address()), from.port()};
}

}  // namespace

ToScheduler decode_to_scheduler(std::span<const std::byte> bytes) {
  const auto& up = lone<wire::Up>(bytes);
  switch (up.body_type()) {
    case wire::ToScheduler::Register:
      return unpack(*up.body_as_Register());
    case wire::ToScheduler::BarrierArrival:
      return BarrierArrival{};
    case wire::ToScheduler::Locate:
      return unpack(*up.body_as_Locate());
    case wire::ToScheduler::Goodbye:
      return Goodbye{};
    case wire::ToScheduler::Finished:
      return Finished{};
    case wire::ToScheduler::LocateAll:
      return LocateAll{};
    case wire::ToScheduler::Stopping:
      return Stopping{up.body_as_Stopping()->reason()->str()};
    case wire::ToScheduler::Ready:
      return Ready{};
    case wire::ToScheduler::Stay:
      return Stay{};
    case wire::ToScheduler::ReadOn:
      return unpack(*up.body_as_ReadOn());
    default:
      malformed("of no known kind");
  }
}

FromScheduler decode_from_scheduler(std::span<const std::byte> bytes) {
  const auto& down = lone<wire::Down>(bytes);
  switch (down.body_type()) {
    case wire::FromScheduler::Refused:
      return Refused{unpack(*down.body_as_Refused()->failure())};
    case wire::FromScheduler::Welcome:
      return unpack(*down.body_as_Welcome());
    case wire::FromScheduler::Located:
      return unpack(*down.body_as_Located(), bytes.size() / sizeof(std::int32_t));
    case wire::FromScheduler::BarrierRelease:
      return BarrierRelease{unpack(down.body_as_BarrierRelease()->failure())};
    case wire::FromScheduler::Lost:
      return unpack(*down.body_as_Lost());
    case wire::FromScheduler::End:
      return End{};
    case wire::FromScheduler::Away:
      return Away{down.body_as_Away()->rank(), down.body_as_Away()->reason()->str()};
    case wire::FromScheduler::Returned:
      return unpack(*down.body_as_Returned());
    case wire::FromScheduler::Gathered:
      return Gathered{};
    case wire::FromScheduler::Begin:
      return Begin{};
    case wire::FromScheduler::Another:
      return Another{};
    case wire::FromScheduler::Over:
      return Over{};
    case wire::FromScheduler::Staying:
      return Staying{down.body_as_Staying()->membership()};
    case wire::FromScheduler::ReadOn:
      return unpack(*down.body_as_ReadOn());
    default:
      malformed("of no known kind");
  }
}

}  // namespace tutti::ps
