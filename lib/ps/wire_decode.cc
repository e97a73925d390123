#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "net/bytes.h"
#include "ps/wire.h"
#include "ps/wire_head.h"
#include "wire_generated.h"

namespace tutti::ps {
namespace {

using Elements = std::span<const std::byte>;

[[noreturn]] void malformed(const char* what) {
  throw Error(ErrorCode::internal, std::string("malformed message: ") + what);
}

/// The enumerator, when the number is at most that of `last`.
template <typename Enum>
Enum checked(std::uint8_t number, Enum last) {
  if (number > static_cast<std::uint8_t>(last)) malformed("an enumerator out of range");
  return static_cast<Enum>(number);
}

template <typename List>
const List& needed(const List* list) {
  if (list == nullptr) malformed("a list is missing");
  return *list;
}

Key unpack(const wire::Key& key) {
  if (key.text() == nullptr) return key.integer();
  if (key.text()->size() > Key::max_bytes) malformed("a key that is too long");
  return key.text()->str();
}

Failure unpack(const wire::Failure& failure) {
  if (failure.code() == 0) malformed("a failure without a code");
  const auto& ranks = needed(failure.ranks());
  return {checked(failure.code(), ErrorCode::internal),
          failure.text()->str(),
          {ranks.begin(), ranks.end()}};
}

std::optional<Failure> unpack(const wire::Failure* failure) {
  if (failure == nullptr) return std::nullopt;
  return unpack(*failure);
}

/// A shape whose bytes can be counted.
Shape unpack(const flatbuffers::Vector<std::int64_t>* dims, DType dtype) {
  const auto& list = needed(dims);
  constexpr std::size_t most = std::numeric_limits<std::int64_t>::max();
  try {
    Shape shape(std::span(list.data(), list.size()));
    if (shape.count() <= most / size_of(dtype)) return shape;
  } catch (const Error&) {
    // Refused below.
  }
  malformed("an impossible shape");
}

PieceName unpack(const wire::Piece& piece) {
  if (piece.index() >= piece.pieces()) malformed("a piece beyond the last");
  return {unpack(*piece.key()), piece.index(), piece.pieces()};
}

Register unpack(const wire::Register& from) {
  return {.role = checked(from.role(), Role::worker),
          .rank = from.rank(),
          .workers = from.workers(),
          .servers = from.servers(),
          .version = from.version()->str(),
          .asynchronous = from.asynchronous(),
          .address = from.address()->str(),
          .port = from.port(),
          .staleness = from.staleness()};
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
  Welcome welcome{from.rank(), from.asynchronous(), {}, from.staleness()};
  for (const wire::Server* server : needed(from.servers())) {
    welcome.servers.push_back({server->address()->str(), server->port()});
  }
  return welcome;
}

Located unpack(const wire::Located& from) {
  Located located{{}, from.all()};
  for (const wire::Placement* one : needed(from.placements())) {
    const auto& servers = needed(one->servers());
    if (servers.size() == 0) malformed("a value on no server");
    located.placements.push_back({unpack(*one->key()), {servers.begin(), servers.end()}});
  }
  return located;
}

Lost unpack(const wire::Lost& from) {
  return {checked(from.role(), Role::worker), from.rank(), from.reason()->str()};
}

Compression unpack(std::uint8_t encoding, float threshold) {
  return {checked(encoding, Encoding::one_bit), threshold};
}

std::optional<Room> unpack(const wire::Room* room) {
  if (room == nullptr) return std::nullopt;
  if (room->filled() > room->bytes()) malformed("a room with more than it holds");
  return Room{room->offset(), room->bytes(), room->filled()};
}

Contribution unpack(const wire::Contribution& from, Elements elements) {
  return {.sequence = from.sequence(),
          .piece = unpack(*from.piece()),
          .kind = checked(from.kind(), Kind::pushpull),
          .op = checked(from.op(), ReduceOp::max),
          .root = from.root(),
          .dtype = checked(from.dtype(), DType::i64),
          .shape = unpack(from.dims(), checked(from.dtype(), DType::i64)),
          .compression = unpack(from.encoding(), from.threshold()),
          .data = elements,
          .keeper = {},
          .room = unpack(from.room())};
}

/// They ascend, and a value of this shape has them.
std::vector<std::int64_t> unpack(const flatbuffers::Vector<std::int64_t>& rows,
                                 const Shape& shape) {
  std::vector<std::int64_t> list(rows.begin(), rows.end());
  const bool ascend = std::ranges::adjacent_find(list, std::greater_equal()) == list.end();
  const bool may_be = !shape.dims().empty() && ascend;
  if (may_be && list.empty()) return list;
  if (may_be && list.front() >= 0 && list.back() < shape.dims()[0]) return list;
  malformed("impossible rows");
}

Pull unpack(const wire::Pull& from) {
  const DType dtype = checked(from.dtype(), DType::i64);
  Pull pull{from.sequence(),    unpack(*from.piece()), dtype, unpack(from.dims(), dtype), {},
            unpack(from.room())};
  if (from.rows() != nullptr) pull.rows = unpack(*from.rows(), pull.shape);
  return pull;
}

Optimizer unpack(const wire::Optimizer& from) {
  Optimizer optimizer{.name = from.name()->str()};
  for (const wire::Parameter* one : needed(from.parameters())) {
    optimizer.parameters[one->name()->str()] = one->value();
  }
  for (const wire::Factors* one : needed(from.factors())) {
    optimizer.factors[unpack(*one->key())] = {one->learning_rate(), one->wd()};
  }
  return optimizer;
}

SetOptimizer unpack(const wire::SetOptimizer& from) {
  return {from.sequence(), unpack(*from.optimizer())};
}

SetCompression unpack(const wire::SetCompression& from) {
  return {from.sequence(), unpack(from.encoding(), from.threshold())};
}

PullState unpack(const wire::PullState& from) {
  return {from.sequence(), unpack(*from.piece())};
}

LoadStates unpack(const wire::LoadStates& from) {
  LoadStates load{from.sequence(), unpack(from.failure()), from.rule()->str(), {}};
  if (from.optimizer() != nullptr) load.optimizer = unpack(*from.optimizer());
  return load;
}

struct Split {
  std::span<const std::byte> table;
  Elements elements;
};

Split split(std::span<const std::byte> bytes, Elements apart = {}) {
  if (bytes.size() < head_bytes) malformed("shorter than its head");
  const auto zeros = bytes.subspan(4, head_bytes - 4);
  const auto body = bytes.subspan(head_bytes);
  const std::size_t length = net::load_u32(bytes.data());
  if (length > body.size()) malformed("shorter than it says");
  if (std::ranges::any_of(zeros, [](std::byte b) { return b != std::byte{0}; })) {
    malformed("a head that is none");
  }
  if (!apart.empty() && length < body.size()) malformed("elements in two places");
  return {body.first(length), apart.empty() ? body.subspan(length) : apart};
}

/// The table of this type, verified.
template <typename Table>
const Table& verified(std::span<const std::byte> table) {
  const auto* const data = net::as_unsigned(table.data());
  flatbuffers::Verifier verifier(data, table.size());
  if (table.empty() || !verifier.VerifyBuffer<Table>()) malformed("it does not verify");
  return *flatbuffers::GetRoot<Table>(data);
}

/// As `verified`, of a message that carries no elements.
template <typename Table>
const Table& lone(std::span<const std::byte> bytes) {
  const Split parts = split(bytes);
  if (!parts.elements.empty()) malformed("elements that belong to nothing");
  return verified<Table>(parts.table);
}

}  // namespace

ToScheduler decode_to_scheduler(std::span<const std::byte> bytes) {
  const auto& up = lone<wire::Up>(bytes);
  switch (up.body_type()) {
    case wire::ToScheduler::Register:
      return unpack(*up.body_as_Register());
    case wire::ToScheduler::BarrierAsked:
      return BarrierAsked{};
    case wire::ToScheduler::Locate:
      return unpack(*up.body_as_Locate());
    case wire::ToScheduler::Goodbye:
      return Goodbye{};
    case wire::ToScheduler::Finished:
      return Finished{};
    case wire::ToScheduler::LocateAll:
      return LocateAll{};
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
      return unpack(*down.body_as_Located());
    case wire::FromScheduler::BarrierOver:
      return BarrierOver{unpack(down.body_as_BarrierOver()->failure())};
    case wire::FromScheduler::Lost:
      return unpack(*down.body_as_Lost());
    case wire::FromScheduler::End:
      return End{};
    default:
      malformed("of no known kind");
  }
}

ToServer decode_to_server(std::span<const std::byte> bytes, Elements apart) {
  const Split parts = split(bytes, apart);
  const auto& request = verified<wire::Request>(parts.table);
  if (const auto* const said = request.body_as_Contribution()) {
    return unpack(*said, parts.elements);
  }
  if (const auto* const set = request.body_as_SetState()) {
    return SetState{set->sequence(), unpack(*set->piece()), parts.elements};
  }
  if (!parts.elements.empty()) malformed("elements that belong to nothing");
  switch (request.body_type()) {
    case wire::ToServer::Pull:
      return unpack(*request.body_as_Pull());
    case wire::ToServer::SetOptimizer:
      return unpack(*request.body_as_SetOptimizer());
    case wire::ToServer::Goodbye:
      return Goodbye{};
    case wire::ToServer::SetCompression:
      return unpack(*request.body_as_SetCompression());
    case wire::ToServer::PullOptimizer:
      return PullOptimizer{request.body_as_PullOptimizer()->sequence()};
    case wire::ToServer::PullState:
      return unpack(*request.body_as_PullState());
    case wire::ToServer::LoadStates:
      return unpack(*request.body_as_LoadStates());
    default:
      malformed("of no known kind");
  }
}

Answer decode_answer(std::span<const std::byte> bytes, Elements apart) {
  const Split parts = split(bytes, apart);
  const auto& from = verified<wire::Answer>(parts.table);
  Answer answer{from.sequence(), unpack(from.failure()), parts.elements};
  if (from.filled() > 0) answer.room = Room{.filled = from.filled()};
  return answer;
}

}  // namespace tutti::ps
