#pragma once
#include <optional>
#include <string>
#include <vector>

#include "control/responder.h"
#include "coordinator/coordinator.h"

namespace tutti::runtime {

/// The coordinator as rank 0's control plane runs it: bytes in, bytes out. `tutti-coord` owns it.
class CoordinatorResponder : public control::Responder {
 public:
  CoordinatorResponder(int size, const coordinator::Settings& settings);

  void tick(std::chrono::nanoseconds now) override;
  std::optional<std::chrono::nanoseconds> next_tick() const override;
  void receive(int from, control::ConstBytes message) override;
  void note_lost(int rank, const std::string& reason) override;
  std::vector<Outgoing> take_messages() override;

 private:
  coordinator::Coordinator coordinator_;
};

}  // namespace tutti::runtime
