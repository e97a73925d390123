#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "collective/ends.h"

/// Ends whose tensors lie where the processor must not reach: their addresses are not canonical, so
/// the processor ends a program that follows one. A copy is made some polls after it was begun, and
/// the copies under way are made in random order.
class FakeEnds final : public tutti::collective::Ends {
 public:
  explicit FakeEnds(std::uint64_t seed) : random_(seed) {}

  /// The address that a batch has for this memory; and the other way round.
  static void* hide(const void* memory);

  void start(const tutti::collective::Batch&) override {}
  void copy_in(const tutti::collective::Batch& batch, std::span<const PieceIn> pieces) override;
  void copy_out(const tutti::collective::Batch& batch, std::span<const PieceOut> pieces,
                bool streaming) override;
  Mark mark(Side) override { return begun_; }
  bool is_over(Side side, Mark mark) override;
  /// How often a mark was not over when it was asked for.
  std::size_t waits() const { return waits_; }

 private:
  struct Copy;

  std::mt19937_64 random_;
  Mark begun_ = 0;
  std::size_t waits_ = 0;
  std::vector<std::shared_ptr<Copy>> under_way_;
};
