#include "ps/protocol/wire.h"

#include "net/bytes.h"
#include "ps/protocol/wire_head.h"
#include "wire_generated.h"

namespace tutti::ps {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;
template <typename T>
using Offset = flatbuffers::Offset<T>;

template <typename Enum>
std::uint8_t number(Enum value) {
  return static_cast<std::uint8_t>(value);
}

Offset<wire::Key> pack(Builder& to, const Key& key) {
  if (key.is_integer()) return wire::CreateKey(to, key.integer());
  return wire::CreateKey(to, 0, to.CreateString(key.string()));
}

Offset<wire::Failure> pack(Builder& to, const Failure& failure) {
  return wire::CreateFailure(to, number(failure.code), to.CreateString(failure.text),
                             to.CreateVector(failure.ranks));
}

Offset<wire::Failure> pack(Builder& to, const std::optional<Failure>& failure) {
  return failure ? pack(to, *failure) : Offset<wire::Failure>();
}

Offset<flatbuffers::Vector<std::int64_t>> pack(Builder& to, const Shape& shape) {
  return to.CreateVector(shape.dims().data(), shape.dims().size());
}

Offset<wire::Piece> pack(Builder& to, const PieceName& piece) {
  return wire::CreatePiece(to, pack(to, piece.key), piece.index, piece.pieces);
}

Offset<wire::Brought> pack(Builder& to, const Brought& brought) {
  std::vector<Offset<wire::Held>> held;
  for (const Held& one : brought.held) {
    held.push_back(wire::CreateHeld(to, pack(to, one.piece), one.count, number(one.dtype)));
  }
  std::vector<wire::Moment> moments;
  for (const Moment& one : brought.moments) {
    moments.emplace_back(one.server, one.is_last, one.rounds);
  }
  const auto pieces = to.CreateVector(held);
  return wire::CreateBrought(to, brought.job, pieces, to.CreateVectorOfStructs(moments));
}
Offset<wire::Register> pack(Builder& to, const Register& said) {
  std::vector<Offset<wire::Brought>> brings;
  for (const Brought& brought : said.brings) brings.push_back(pack(to, brought));
  const auto version = to.CreateString(said.version);
  const auto address = to.CreateString(said.address);
  const auto states = to.CreateVector(brings);
  const auto host = to.CreateString(said.host);
  return wire::CreateRegister(to, number(said.role), said.rank, said.workers, said.servers, version,
                              said.asynchronous, address, said.port, said.staleness, said.durable,
                              said.keeps, states, host, said.process, said.membership,
                              to.CreateString(said.host_identity));
}
Offset<wire::BarrierArrival> pack(Builder& to, const BarrierArrival&) {
  return wire::CreateBarrierArrival(to);
}
Offset<wire::Locate> pack(Builder& to, const Locate& locate) {
  std::vector<Offset<wire::Value>> values;
  for (const Locate::Value& value : locate.values) {
    const auto key = pack(to, value.key);
    values.push_back(wire::CreateValue(to, key, value.count, number(value.dtype), value.whole));
  }
  return wire::CreateLocate(to, to.CreateVector(values));
}
Offset<wire::Goodbye> pack(Builder& to, const Goodbye&) {
  return wire::CreateGoodbye(to);
}
Offset<wire::Finished> pack(Builder& to, const Finished&) {
  return wire::CreateFinished(to);
}
Offset<wire::LocateAll> pack(Builder& to, const LocateAll&) {
  return wire::CreateLocateAll(to);
}
Offset<wire::Stopping> pack(Builder& to, const Stopping& stopping) {
  return wire::CreateStopping(to, to.CreateString(stopping.reason));
}
Offset<wire::Ready> pack(Builder& to, const Ready&) {
  return wire::CreateReady(to);
}
Offset<wire::Stay> pack(Builder& to, const Stay&) {
  return wire::CreateStay(to);
}

Offset<wire::ReadOn> pack(Builder& to, const ReadOn& on) {
  return wire::CreateReadOn(to, on.rank, on.sequence);
}

Offset<wire::Refused> pack(Builder& to, const Refused& refused) {
  return wire::CreateRefused(to, pack(to, refused.failure));
}
Offset<wire::Welcome> pack(Builder& to, const Welcome& welcome) {
  std::vector<Offset<wire::Server>> servers;
  for (const Welcome::ServerAddress& server : welcome.servers) {
    const auto address = to.CreateString(server.address);
    servers.push_back(wire::CreateServer(to, address, server.port, server.durable, server.keeps));
  }
  std::vector<Offset<wire::Key>> dropped;
  for (const Key& key : welcome.dropped) dropped.push_back(pack(to, key));
  const auto server_list = to.CreateVector(servers);
  const auto dropped_list = to.CreateVector(dropped);
  return wire::CreateWelcome(to, welcome.rank, welcome.asynchronous, server_list, welcome.staleness,
                             welcome.job, dropped_list, welcome.place.local_rank,
                             welcome.place.local_size, welcome.place.hosts, welcome.begins_with,
                             to.CreateString(welcome.doubt));
}
Offset<wire::Located> pack(Builder& to, const Located& located) {
  std::vector<Offset<wire::Placement>> placements;
  for (const auto& [name, places] : located.placements) {
    const auto key = pack(to, name);
    const auto servers = to.CreateVector(places.servers);
    placements.push_back(wire::CreatePlacement(to, key, servers, places.pieces));
  }
  return wire::CreateLocated(to, to.CreateVector(placements), located.all);
}
Offset<wire::BarrierRelease> pack(Builder& to, const BarrierRelease& over) {
  return wire::CreateBarrierRelease(to, pack(to, over.failure));
}
Offset<wire::Lost> pack(Builder& to, const Lost& lost) {
  return wire::CreateLost(to, number(lost.role), lost.rank, to.CreateString(lost.reason));
}
Offset<wire::End> pack(Builder& to, const End&) {
  return wire::CreateEnd(to);
}
Offset<wire::Away> pack(Builder& to, const Away& away) {
  return wire::CreateAway(to, away.rank, to.CreateString(away.reason));
}
Offset<wire::Returned> pack(Builder& to, const Returned& returned) {
  return wire::CreateReturned(to, returned.rank, to.CreateString(returned.address), returned.port);
}
Offset<wire::Gathered> pack(Builder& to, const Gathered&) {
  return wire::CreateGathered(to);
}
Offset<wire::Begin> pack(Builder& to, const Begin&) {
  return wire::CreateBegin(to);
}
Offset<wire::Another> pack(Builder& to, const Another&) {
  return wire::CreateAnother(to);
}
Offset<wire::Over> pack(Builder& to, const Over&) {
  return wire::CreateOver(to);
}
Offset<wire::Staying> pack(Builder& to, const Staying& staying) {
  return wire::CreateStaying(to, staying.membership);
}
std::optional<wire::Room> pack(const std::optional<Room>& room) {
  if (!room) return std::nullopt;
  return wire::Room(room->offset, room->bytes, room->filled);
}

Offset<wire::Contribution> pack(Builder& to, const Contribution& said) {
  const auto piece = pack(to, said.piece);
  const auto room = pack(said.room);
  return wire::CreateContribution(to, said.sequence, piece, number(said.kind), number(said.op),
                                  said.root, number(said.dtype), pack(to, said.shape),
                                  number(said.compression.encoding), said.compression.threshold,
                                  room ? &*room : nullptr);
}
Offset<wire::Pull> pack(Builder& to, const Pull& pull) {
  const auto piece = pack(to, pull.piece);
  const auto dims = pack(to, pull.shape);
  Offset<flatbuffers::Vector<std::int64_t>> rows;
  if (pull.rows) rows = to.CreateVector(*pull.rows);
  const auto room = pack(pull.room);
  return wire::CreatePull(to, pull.sequence, piece, number(pull.dtype), dims, rows,
                          room ? &*room : nullptr);
}
Offset<wire::Optimizer> pack(Builder& to, const Optimizer& optimizer) {
  std::vector<Offset<wire::Parameter>> parameters;
  for (const auto& [name, value] : optimizer.parameters) {
    parameters.push_back(wire::CreateParameter(to, to.CreateString(name), value));
  }
  std::vector<Offset<wire::Factors>> factors;
  for (const auto& [key, of_key] : optimizer.factors) {
    factors.push_back(wire::CreateFactors(to, pack(to, key), of_key.learning_rate, of_key.wd));
  }
  const auto name = to.CreateString(optimizer.name);
  const auto parameter_list = to.CreateVector(parameters);
  return wire::CreateOptimizer(to, name, parameter_list, to.CreateVector(factors));
}
Offset<wire::SetOptimizer> pack(Builder& to, const SetOptimizer& set) {
  return wire::CreateSetOptimizer(to, set.sequence, pack(to, set.optimizer));
}
Offset<wire::SetCompression> pack(Builder& to, const SetCompression& set) {
  return wire::CreateSetCompression(to, set.sequence, number(set.compression.encoding),
                                    set.compression.threshold);
}
Offset<wire::PullOptimizer> pack(Builder& to, const PullOptimizer& pull) {
  return wire::CreatePullOptimizer(to, pull.sequence);
}
Offset<wire::PullState> pack(Builder& to, const PullState& pull) {
  return wire::CreatePullState(to, pull.sequence, pack(to, pull.piece));
}
Offset<wire::SetState> pack(Builder& to, const SetState& set) {
  return wire::CreateSetState(to, set.sequence, pack(to, set.piece));
}
Offset<wire::LoadStates> pack(Builder& to, const LoadStates& load) {
  const auto failure = pack(to, load.failure);
  const auto rule = to.CreateString(load.rule);
  Offset<wire::Optimizer> optimizer;
  if (load.optimizer) optimizer = pack(to, *load.optimizer);
  return wire::CreateLoadStates(to, load.sequence, failure, rule, optimizer);
}

Offset<wire::Withdrawal> pack(Builder& to, const Withdrawal& said) {
  const auto piece = pack(to, said.piece);
  return wire::CreateWithdrawal(to, said.sequence, piece, number(said.kind),
                                pack(to, said.failure));
}
Offset<wire::FindMissing> pack(Builder& to, const FindMissing& asked) {
  Offset<wire::Piece> piece;
  if (asked.piece) piece = pack(to, *asked.piece);
  return wire::CreateFindMissing(to, asked.sequence, piece);
}

Offset<wire::Recall> pack(Builder& to, const Recall& said) {
  Offset<wire::Piece> piece;
  if (said.piece) piece = pack(to, *said.piece);
  return wire::CreateRecall(to, said.sequence, said.request, piece, number(said.step),
                            pack(to, said.failure));
}

std::vector<std::byte> assembled(const Builder& built) {
  std::vector<std::byte> bytes(head_bytes);
  bytes.reserve(head_bytes + built.GetSize());
  net::store_u32(bytes.data(), built.GetSize());
  net::append(bytes, std::as_bytes(std::span(built.GetBufferPointer(), built.GetSize())));
  return bytes;
}

/// `make` puts the body, which has this number in its union, into its root table.
template <typename Variant, typename Make>
void finish(Builder& to, const Variant& message, const Make& make) {
  std::visit([&](const auto& one) { to.Finish(make(pack(to, one).Union())); }, message);
}

}  // namespace

std::vector<std::byte> encode(const ToScheduler& message) {
  Builder to;
  const auto kind = static_cast<wire::ToScheduler>(message.index() + 1);
  finish(to, message, [&](auto body) { return wire::CreateUp(to, kind, body); });
  return assembled(to);
}

std::vector<std::byte> encode(const FromScheduler& message) {
  Builder to;
  const auto kind = static_cast<wire::FromScheduler>(message.index() + 1);
  finish(to, message, [&](auto body) { return wire::CreateDown(to, kind, body); });
  return assembled(to);
}

std::span<const std::byte> elements_of(const ToServer& message) {
  if (const auto* const said = std::get_if<Contribution>(&message)) return said->data;
  if (const auto* const set = std::get_if<SetState>(&message)) return set->data;
  return {};
}

std::vector<std::byte> encode_head(const ToServer& message) {
  Builder to;
  const auto kind = static_cast<wire::ToServer>(message.index() + 1);
  finish(to, message, [&](auto body) { return wire::CreateRequest(to, kind, body); });
  return assembled(to);
}

std::vector<std::byte> encode_head(const Answer& message) {
  Builder to;
  const auto failure = pack(to, message.failure);
  to.Finish(
      wire::CreateAnswer(to, message.sequence, failure, message.room ? message.room->filled : 0));
  return assembled(to);
}

std::vector<std::byte> encode(const ToServer& message) {
  std::vector<std::byte> bytes = encode_head(message);
  net::append(bytes, elements_of(message));
  return bytes;
}

std::vector<std::byte> encode(const Answer& message) {
  std::vector<std::byte> bytes = encode_head(message);
  net::append(bytes, message.data);
  return bytes;
}

}  // namespace tutti::ps
