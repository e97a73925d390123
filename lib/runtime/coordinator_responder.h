#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/responder.h"
#include "coordinator/coordinator.h"

namespace tutti::runtime {

/// Connects the coordinator to rank 0's control plane: decodes messages, and encodes the answers.
/// `tutti-coord` owns it. That thread also destroys it, because its tables are in that thread's
/// part of the heap.
class CoordinatorResponder : public control::Responder {
 public:
  CoordinatorResponder(int size, const coordinator::Settings& settings);
  ~CoordinatorResponder() override;
  CoordinatorResponder(const CoordinatorResponder&) = delete;
  CoordinatorResponder& operator=(const CoordinatorResponder&) = delete;

  void tick(std::chrono::nanoseconds now) override;
  std::optional<std::chrono::nanoseconds> next_tick() const override;
  void receive(int from, net::ConstBytes message) override;
  void note_lost(int rank, const std::string& reason) override;
  std::vector<Outgoing> take_messages() override;

 private:
  std::unique_ptr<coordinator::Coordinator> coordinator_;
};

}  // namespace tutti::runtime
