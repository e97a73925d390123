#include "runtime/coordinator_responder.h"

#include "base/heap.h"
#include "base/log.h"
#include "coordinator/wire.h"
#include "net/message_stream.h"

namespace tutti::runtime {

static_assert(control::Responder::everyone == coordinator::everyone);
static_assert(net::max_message_bytes == coordinator::max_message_bytes);

CoordinatorResponder::CoordinatorResponder(int size, const coordinator::Settings& settings)
    : coordinator_(std::make_unique<coordinator::Coordinator>(size, settings)) {}

CoordinatorResponder::~CoordinatorResponder() {
  base::return_memory_of(coordinator_->keys(), [this] { coordinator_.reset(); });
}

void CoordinatorResponder::tick(std::chrono::nanoseconds now) {
  coordinator_->tick(now);
}

std::optional<std::chrono::nanoseconds> CoordinatorResponder::next_tick() const {
  return coordinator_->next_tick();
}

void CoordinatorResponder::receive(int from, net::ConstBytes message) {
  coordinator_->receive(from, coordinator::decode_to_coordinator(message));
}

void CoordinatorResponder::note_lost(int rank, const std::string& reason) {
  coordinator_->note_lost(rank, reason);
}

std::vector<control::Responder::Outgoing> CoordinatorResponder::take_messages() {
  for (const std::string& notice : coordinator_->take_notices()) base::log().warn("{}", notice);
  std::vector<Outgoing> encoded;
  for (const coordinator::Outgoing& outgoing : coordinator_->take_messages()) {
    encoded.push_back({outgoing.to, coordinator::encode(outgoing.message)});
  }
  return encoded;
}

}  // namespace tutti::runtime
