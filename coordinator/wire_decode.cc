#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/wire_reading.h"
#include "coordinator/wire.h"
#include "schema_generated.h"
#include "tutti/error.h"

namespace tutti::coordinator {
namespace {

using base::checked;
using base::malformed;
using base::needed;

Key unpack(const wire::Key& key) {
  if (key.text() == nullptr) return key.integer();
  if (key.text()->size() > Key::max_bytes) malformed("a key that is too long");
  return key.text()->str();
}

Signature unpack(const wire::Signature& s) {
  Signature signature{.kind = checked(s.kind(), CollectiveKind::barrier),
                      .dtype = checked(s.dtype(), DType::b128),
                      .op = checked(s.op(), ReduceOp::max),
                      .device = checked(s.device(), Device::Kind::gpu),
                      .wire = checked(s.wire(), WireFormat::bf16),
                      .root = s.root(),
                      .shape = {},
                      .counts = s.counts()};
  const auto& dims = needed(s.dims());
  try {
    signature.shape = Shape(std::span(dims.data(), dims.size()));
  } catch (const Error&) {
    malformed("an impossible shape");
  }
  return signature;
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

Report unpack(Epoch epoch, const wire::Report& from) {
  const auto& ready = needed(from.ready());
  Report report{.epoch = epoch, .entered = from.entered(), .ready = {}, .fresh = {}};
  report.ready.reserve(ready.size());
  for (const wire::Ready* one : ready) {
    report.ready.push_back({one->id(), one->priority(), one->round(), Time(one->age())});
  }
  for (const wire::Fresh* one : needed(from.fresh())) {
    report.fresh.push_back({unpack(*one->key()), unpack(*one->signature()), one->priority(),
                            one->round(), Time(one->age())});
  }
  return report;
}

JoinAsked unpack(Epoch epoch, const wire::JoinAsked&) {
  return {epoch};
}
DepartAsked unpack(Epoch epoch, const wire::DepartAsked&) {
  return {epoch};
}
Drained unpack(Epoch epoch, const wire::Drained&) {
  return {epoch};
}
Left unpack(Epoch epoch, const wire::Left&) {
  return {epoch};
}
Escape unpack(Epoch epoch, const wire::Escape& from) {
  return {epoch, checked(from.reason(), EscapeReason::overdue), from.detail()->str()};
}
Stopped unpack(Epoch epoch, const wire::Stopped& from) {
  return {epoch, from.entered()};
}
LostRank unpack(Epoch, const wire::LostRank& from) {
  return {from.rank(), from.reason()->str()};
}

template <typename Message>
std::vector<PlanBatch> unpack_batches(const Message& from) {
  const auto& parts = needed(from.parts());
  std::vector<PlanBatch> batches;
  flatbuffers::uoffset_t next = 0;
  for (const wire::Batch* head : needed(from.batches())) {
    if (head->parts() > parts.size() - next) malformed("a batch of missing parts");
    PlanBatch& batch = batches.emplace_back();
    batch.active_ranks = head->active_ranks();
    batch.acknowledge = head->acknowledge();
    batch.parts.reserve(head->parts());
    for (const auto end = next + head->parts(); next < end; ++next) {
      const wire::Part* part = parts.Get(next);
      batch.parts.push_back({part->id(), part->round(), part->begin(), part->count()});
    }
  }
  return batches;
}

Plan unpack(Epoch epoch, const wire::Plan& from) {
  Plan plan{.epoch = epoch, .first = from.first(), .agreements = {}, .batches = {}};
  for (const wire::Agreement* one : needed(from.agreements())) {
    plan.agreements.push_back({one->id(), unpack(*one->key()), unpack(*one->signature())});
  }
  plan.batches = unpack_batches(from);
  return plan;
}
Failed unpack(Epoch epoch, const wire::Failed& from) {
  return {epoch, unpack(*from.key()), from.round(), unpack(*from.failure())};
}
JoinOver unpack(Epoch epoch, const wire::JoinOver& from) {
  return {epoch, from.last(), unpack(from.failure())};
}
Drain unpack(Epoch epoch, const wire::Drain&) {
  return {epoch};
}
Departed unpack(Epoch epoch, const wire::Departed&) {
  return {epoch};
}
Stop unpack(Epoch epoch, const wire::Stop&) {
  return {epoch};
}
Resume unpack(Epoch epoch, const wire::Resume& from) {
  return {epoch, from.closed(), unpack_batches(from), from.first()};
}

/// FlatBuffers' own check: no offset points outside, and no required field is absent. A table and
/// the offset that points at it take 8 bytes. If there are more tables than that allows, several
/// offsets point at the same table.
template <typename Frame>
const Frame& verified(std::span<const std::byte> bytes) {
  if (bytes.size() > max_message_bytes) malformed("too long");
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), 16,
                                 static_cast<flatbuffers::uoffset_t>(bytes.size() / 8));
  if (!verifier.VerifyBuffer<Frame>(nullptr)) malformed("it does not verify");
  return *flatbuffers::GetRoot<Frame>(data);
}

}  // namespace

ToCoordinator decode_to_coordinator(std::span<const std::byte> bytes) {
  const auto& up = verified<wire::Up>(bytes);
  switch (up.body_type()) {
    case wire::FromRank::Report:
      return unpack(up.epoch(), *up.body_as_Report());
    case wire::FromRank::JoinAsked:
      return unpack(up.epoch(), *up.body_as_JoinAsked());
    case wire::FromRank::DepartAsked:
      return unpack(up.epoch(), *up.body_as_DepartAsked());
    case wire::FromRank::Drained:
      return unpack(up.epoch(), *up.body_as_Drained());
    case wire::FromRank::Left:
      return unpack(up.epoch(), *up.body_as_Left());
    case wire::FromRank::Escape:
      return unpack(up.epoch(), *up.body_as_Escape());
    case wire::FromRank::Stopped:
      return unpack(up.epoch(), *up.body_as_Stopped());
    case wire::FromRank::LostRank:
      return unpack(up.epoch(), *up.body_as_LostRank());
    case wire::FromRank::NONE:
      break;
  }
  malformed("an unknown kind");
}

ToRank decode_to_rank(std::span<const std::byte> bytes) {
  const auto& down = verified<wire::Down>(bytes);
  switch (down.body_type()) {
    case wire::FromCoordinator::Plan:
      return unpack(down.epoch(), *down.body_as_Plan());
    case wire::FromCoordinator::Failed:
      return unpack(down.epoch(), *down.body_as_Failed());
    case wire::FromCoordinator::JoinOver:
      return unpack(down.epoch(), *down.body_as_JoinOver());
    case wire::FromCoordinator::Drain:
      return unpack(down.epoch(), *down.body_as_Drain());
    case wire::FromCoordinator::Departed:
      return unpack(down.epoch(), *down.body_as_Departed());
    case wire::FromCoordinator::Stop:
      return unpack(down.epoch(), *down.body_as_Stop());
    case wire::FromCoordinator::Resume:
      return unpack(down.epoch(), *down.body_as_Resume());
    case wire::FromCoordinator::LostRank:
      return unpack(down.epoch(), *down.body_as_LostRank());
    case wire::FromCoordinator::NONE:
      break;
  }
  malformed("an unknown kind");
}

}  // namespace tutti::coordinator
