#include "coordinator/wire.h"

#include "schema_generated.h"

namespace tutti::coordinator {
namespace {

using Builder = flatbuffers::FlatBufferBuilder;
template <typename T>
using Offset = flatbuffers::Offset<T>;

Offset<wire::Key> pack(Builder& to, const Key& key) {
  if (key.is_integer()) return wire::CreateKey(to, key.integer());
  return wire::CreateKey(to, 0, to.CreateString(key.string()));
}

Offset<wire::Signature> pack(Builder& to, const Signature& s) {
  const auto dims = to.CreateVector(s.shape.dims().data(), s.shape.dims().size());
  return wire::CreateSignature(to, static_cast<std::uint8_t>(s.kind),
                               static_cast<std::uint8_t>(s.dtype), static_cast<std::uint8_t>(s.op),
                               static_cast<std::uint8_t>(s.device),
                               static_cast<std::uint8_t>(s.wire), s.root, s.counts, dims);
}

Offset<wire::Failure> pack(Builder& to, const Failure& failure) {
  return wire::CreateFailure(to, static_cast<std::uint8_t>(failure.code),
                             to.CreateString(failure.text), to.CreateVector(failure.ranks));
}

Offset<wire::Failure> pack(Builder& to, const std::optional<Failure>& failure) {
  return failure ? pack(to, *failure) : Offset<wire::Failure>();
}

Offset<wire::Report> pack(Builder& to, const Report& report) {
  std::vector<wire::Ready> ready;
  ready.reserve(report.ready.size());
  for (const ReadyCall& key : report.ready) {
    ready.emplace_back(key.id, key.priority, key.round, key.age.count());
  }
  std::vector<Offset<wire::Fresh>> fresh;
  for (const FreshCall& key : report.fresh) {
    const auto name = pack(to, key.key);
    const auto signature = pack(to, key.signature);
    fresh.push_back(
        wire::CreateFresh(to, name, signature, key.priority, key.round, key.age.count()));
  }
  const auto ready_list = to.CreateVectorOfStructs(ready);
  return wire::CreateReport(to, report.entered, ready_list, to.CreateVector(fresh));
}

Offset<wire::JoinAsked> pack(Builder& to, const JoinAsked&) {
  return wire::CreateJoinAsked(to);
}
Offset<wire::DepartAsked> pack(Builder& to, const DepartAsked&) {
  return wire::CreateDepartAsked(to);
}
Offset<wire::Drained> pack(Builder& to, const Drained&) {
  return wire::CreateDrained(to);
}
Offset<wire::Left> pack(Builder& to, const Left&) {
  return wire::CreateLeft(to);
}
Offset<wire::Escape> pack(Builder& to, const Escape& escape) {
  return wire::CreateEscape(to, static_cast<std::uint8_t>(escape.reason),
                            to.CreateString(escape.detail));
}
Offset<wire::Stopped> pack(Builder& to, const Stopped& stopped) {
  return wire::CreateStopped(to, stopped.entered);
}
Offset<wire::LostRank> pack(Builder& to, const LostRank& lost) {
  return wire::CreateLostRank(to, lost.rank, to.CreateString(lost.reason));
}

struct PackedBatches {
  Offset<flatbuffers::Vector<const wire::Batch*>> batches;
  Offset<flatbuffers::Vector<const wire::Part*>> parts;
};

PackedBatches pack(Builder& to, const std::vector<PlanBatch>& batches) {
  std::vector<wire::Batch> heads;
  std::vector<wire::Part> parts;
  for (const PlanBatch& batch : batches) {
    heads.emplace_back(static_cast<std::uint32_t>(batch.parts.size()), batch.active_ranks,
                       batch.acknowledge);
    for (const PlanPart& part : batch.parts) {
      parts.emplace_back(part.round, part.begin, part.count, part.id);
    }
  }
  return {to.CreateVectorOfStructs(heads), to.CreateVectorOfStructs(parts)};
}

Offset<wire::Plan> pack(Builder& to, const Plan& plan) {
  std::vector<Offset<wire::Agreement>> agreements;
  for (const Agreement& agreement : plan.agreements) {
    const auto key = pack(to, agreement.key);
    const auto signature = pack(to, agreement.signature);
    agreements.push_back(wire::CreateAgreement(to, agreement.id, key, signature));
  }
  const auto list = to.CreateVector(agreements);
  const PackedBatches packed = pack(to, plan.batches);
  return wire::CreatePlan(to, plan.first, list, packed.batches, packed.parts);
}

Offset<wire::Failed> pack(Builder& to, const Failed& failed) {
  const auto key = pack(to, failed.key);
  const auto failure = pack(to, failed.failure);
  return wire::CreateFailed(to, key, failed.round, failure);
}
Offset<wire::JoinOver> pack(Builder& to, const JoinOver& over) {
  return wire::CreateJoinOver(to, over.last, pack(to, over.failure));
}
Offset<wire::Drain> pack(Builder& to, const Drain&) {
  return wire::CreateDrain(to);
}
Offset<wire::Departed> pack(Builder& to, const Departed&) {
  return wire::CreateDeparted(to);
}
Offset<wire::Stop> pack(Builder& to, const Stop&) {
  return wire::CreateStop(to);
}
Offset<wire::Resume> pack(Builder& to, const Resume& resume) {
  const PackedBatches packed = pack(to, resume.cycle);
  return wire::CreateResume(to, resume.closed, packed.batches, packed.parts, resume.first);
}

/// The loss of a rank counts in every epoch.
template <typename T>
Epoch epoch_of(const T& message) {
  return message.epoch;
}
Epoch epoch_of(const LostRank&) {
  return 0;
}

std::vector<std::byte> bytes_of(const Builder& built) {
  const auto* data = reinterpret_cast<const std::byte*>(built.GetBufferPointer());
  return {data, data + built.GetSize()};
}

}  // namespace

std::vector<std::byte> encode(const ToCoordinator& message) {
  Builder to;
  std::visit(
      [&](const auto& one) {
        const auto body = pack(to, one);
        to.Finish(wire::CreateUp(to, epoch_of(one),
                                 static_cast<wire::FromRank>(message.index() + 1), body.Union()));
      },
      message);
  return bytes_of(to);
}

std::vector<std::byte> encode(const ToRank& message) {
  Builder to;
  std::visit(
      [&](const auto& one) {
        const auto body = pack(to, one);
        to.Finish(wire::CreateDown(to, epoch_of(one),
                                   static_cast<wire::FromCoordinator>(message.index() + 1),
                                   body.Union()));
      },
      message);
  return bytes_of(to);
}

}  // namespace tutti::coordinator
