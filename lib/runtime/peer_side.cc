#include "runtime/peer_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tutti::runtime {
namespace {

std::string describe(bool sends, const p2p::Envelope& envelope) {
  const std::string peer =
      envelope.peer == p2p::any_peer ? "any rank" : fmt::format("rank {}", envelope.peer);
  return fmt::format("{} {} with tag {}", sends ? "send to" : "recv from", peer, envelope.tag);
}

}  // namespace

PeerCall::PeerCall(bool is_send, const Tensor& tensor, int peer, int tag, int* whence,
                   std::weak_ptr<base::Driver> driver)
    : sends(is_send),
      envelope{peer, tag, tensor.dtype(), tensor.count()},
      source(whence),
      completion(
          1, [this] { return describe(sends, envelope); }, std::move(driver)) {
  (sends ? holder.ins : holder.outs) = tensor;
}

PeerSide::PeerSide(const topology::Topology& topology, Memory memory,
                   const p2p::BetweenNodes& between_nodes, p2p::Time limit,
                   p2p::Messenger::IsClosing is_closing)
    : memory_(std::move(memory.file), memory.map, topology.local_index(),
              std::move(memory.doorbells)),
      messenger_(topology, limit, memory_, between_nodes, std::move(is_closing)) {}

void PeerSide::submit(p2p::Time now, const std::shared_ptr<PeerCall>& call) {
  try {
    messenger_.open(call->envelope.peer,
                    call->sends ? p2p::Carrier::Use::send : p2p::Carrier::Use::receive);
  } catch (const Error& error) {
    refused_.push_back({call, error});
    return;
  }
  const p2p::CallId id = next_call_++;
  calls_[id] = call;
  if (call->sends) {
    const Tensor& tensor = call->holder.ins[0];
    messenger_.send(now, id, call->envelope, {tensor.as<std::byte>(), tensor.bytes()});
  } else {
    const Tensor& tensor = call->holder.outs[0];
    messenger_.receive(now, id, call->envelope, {tensor.as<std::byte>(), tensor.bytes()});
  }
}

std::vector<PeerSide::Ended> PeerSide::take_ended() {
  std::vector<Ended> ended = std::exchange(refused_, {});
  for (p2p::Finish& finish : messenger_.take_finished()) {
    const auto found = calls_.find(finish.call);
    std::shared_ptr<PeerCall> call = std::move(found->second);
    calls_.erase(found);
    if (call->source != nullptr && !finish.error) *call->source = finish.peer;
    ended.push_back({std::move(call), std::move(finish.error)});
  }
  return ended;
}

std::vector<std::shared_ptr<PeerCall>> PeerSide::drop_all() {
  std::vector<std::shared_ptr<PeerCall>> dropped;
  for (auto& [id, call] : std::exchange(calls_, {})) dropped.push_back(std::move(call));
  for (Ended& refused : std::exchange(refused_, {})) dropped.push_back(std::move(refused.call));
  return dropped;
}

std::vector<std::string> PeerSide::in_flight() const {
  const std::map<p2p::CallId, std::shared_ptr<PeerCall>> in_order(calls_.begin(), calls_.end());
  std::vector<std::string> texts;
  texts.reserve(in_order.size());
  for (const auto& [id, call] : in_order) texts.push_back(call->completion.what());
  return texts;
}

bool PeerSide::is_waited_for() const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [](const auto& entry) { return entry.second->completion.is_waited_for(); });
}

}  // namespace tutti::runtime
