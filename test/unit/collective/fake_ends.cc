#include "fake_ends.h"

#include <algorithm>

using namespace tutti::collective;

namespace {

constexpr std::uintptr_t not_canonical = std::uintptr_t{1} << 62;

template <typename Pointer>
Pointer flip(Pointer memory) {
  return reinterpret_cast<Pointer>(reinterpret_cast<std::uintptr_t>(memory) ^ not_canonical);
}

}  // namespace

struct FakeEnds::Copy {
  Copy(Mark number, const Batch& hidden) : index(number), batch(hidden) {
    for (const TensorPart& part : hidden.parts) {
      auto& in = ins.emplace_back(part.ins.begin(), part.ins.end());
      for (const void*& memory : in) memory = flip(memory);
      auto& out = outs.emplace_back(part.outs.begin(), part.outs.end());
      for (void*& memory : out) memory = flip(memory);
    }
    for (std::size_t i = 0; i < batch.parts.size(); ++i) {
      batch.parts[i].ins = ins[i];
      batch.parts[i].outs = outs[i];
    }
  }

  void make() const {
    for (const PieceIn& piece : pieces_in) {
      tutti::collective::copy_in(batch, piece.range, piece.to);
    }
    for (const PieceOut& piece : pieces_out) {
      tutti::collective::copy_out(batch, piece.range, piece.from, false);
    }
  }

  Mark index;
  Batch batch;
  std::vector<std::vector<const void*>> ins;
  std::vector<std::vector<void*>> outs;
  std::vector<PieceIn> pieces_in;
  std::vector<PieceOut> pieces_out;
};

void* FakeEnds::hide(const void* memory) {
  return const_cast<void*>(flip(memory));
}

void FakeEnds::copy_in(const Batch& batch, std::span<const PieceIn> pieces) {
  under_way_.push_back(std::make_shared<Copy>(begun_++, batch));
  under_way_.back()->pieces_in.assign(pieces.begin(), pieces.end());
}

void FakeEnds::copy_out(const Batch& batch, std::span<const PieceOut> pieces, bool) {
  under_way_.push_back(std::make_shared<Copy>(begun_++, batch));
  under_way_.back()->pieces_out.assign(pieces.begin(), pieces.end());
}

bool FakeEnds::is_over(Side, Mark mark) {
  std::shuffle(under_way_.begin(), under_way_.end(), random_);
  std::erase_if(under_way_, [this](const std::shared_ptr<Copy>& copy) {
    if (random_() % 3 != 0) return false;
    copy->make();
    return true;
  });
  const bool over = std::all_of(under_way_.begin(), under_way_.end(),
                                [mark](const auto& copy) { return copy->index >= mark; });
  if (!over) ++waits_;
  return over;
}
