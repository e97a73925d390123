// Decodes requests to servers, and their answers.
#include <algorithm>
#include <functional>
#include <limits>

#include "ps/protocol/wire.h"
#include "ps/protocol/wire_reading.h"

namespace tutti::ps {
namespace {

using ps::unpack;

/// A shape whose bytes can be counted.
Shape unpack(const flatbuffers::Vector<std::int64_t>* dims, DType dtype) {
  const auto& list = needed(dims);
  constexpr std::size_t most = std::numeric_limits<std::int64_t>::max();
  try {
    Shape shape(std::span(list.data(), list.size()));
    if (shape.count() <= most / size_of(dtype)) return shape;
  } catch (const Error&) {
    // The shape is refused below.
  }
  malformed("an impossible shape");
}

Compression unpack(std::uint8_t encoding, float threshold) {
  return {checked(encoding, Encoding::one_bit), threshold};
}

std::optional<Room> unpack(const wire::Room* room) {
  if (room == nullptr) return std::nullopt;
  if (room->filled() > room->bytes()) malformed("a room with more than it holds");
  return Room{room->offset(), room->bytes(), room->filled()};
}

Contribution unpack(const wire::Contribution& from, ElementBytes elements) {
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

/// The rows ascend, and a value of this shape has them.
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
  if (from.rows() != nullptr) pull.rows = unpack(needed(from.rows()), pull.shape);
  return pull;
}

Optimizer unpack(const wire::Optimizer& from) {
  Optimizer optimizer{.name = unpack(*from.name())};
  for (const wire::Parameter* one : needed(from.parameters())) {
    optimizer.parameters[unpack(*one->name())] = one->value();
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

Withdrawal unpack(const wire::Withdrawal& from) {
  return {from.sequence(), unpack(*from.piece()), checked(from.kind(), Kind::pushpull),
          unpack(*from.failure())};
}

Recall unpack(const wire::Recall& from) {
  Recall said{.sequence = from.sequence(),
              .request = from.request(),
              .step = checked(from.step(), Recall::Step::give_up),
              .failure = unpack(from.failure())};
  if (from.piece() != nullptr) said.piece = unpack(*from.piece());
  if (said.failure.has_value() == (said.step == Recall::Step::give_up)) return said;
  malformed("given up without a reason, or a reason without that");
}

FindMissing unpack(const wire::FindMissing& from) {
  FindMissing asked{from.sequence(), {}};
  if (from.piece() != nullptr) asked.piece = unpack(*from.piece());
  return asked;
}

}  // namespace

ToServer decode_to_server(std::span<const std::byte> bytes, ElementBytes apart) {
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
    case wire::ToServer::Withdrawal:
      return unpack(*request.body_as_Withdrawal());
    case wire::ToServer::FindMissing:
      return unpack(*request.body_as_FindMissing());
    case wire::ToServer::Recall:
      return unpack(*request.body_as_Recall());
    default:
      malformed("of no known kind");
  }
}

Answer decode_answer(std::span<const std::byte> bytes, ElementBytes apart) {
  const Split parts = split(bytes, apart);
  const auto& from = verified<wire::Answer>(parts.table);
  Answer answer{from.sequence(), unpack(from.failure()), parts.elements};
  if (from.filled() > 0) answer.room = Room{.filled = from.filled()};
  return answer;
}

}  // namespace tutti::ps
