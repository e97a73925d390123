#include "benchmarks/server/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "benchmarks/training_step/model.h"

namespace tutti::bench {
namespace {

Tensor view(std::vector<float>& memory, std::size_t at, std::size_t count) {
  return {memory.data() + at, {static_cast<std::int64_t>(count)}, DType::f32};
}

}  // namespace

std::vector<std::size_t> like_resnet50(std::size_t count) {
  const Model model = make_model("resnet50", 1);
  const std::size_t all = element_count(model);
  std::vector<std::size_t> counts;
  for (const LayerShape& layer : model) {
    for (const std::size_t part : layer.tensors) {
      counts.push_back(std::max<std::size_t>(1, count * part / all));
    }
  }
  // The largest tensor takes the elements that rounding leaves.
  *std::ranges::max_element(counts) += count - std::reduce(counts.begin(), counts.end());
  return counts;
}

Exchange::Exchange(KVStore& store, const std::string& name, const std::vector<std::size_t>& counts)
    : store_(store),
      pattern_(DType::f32, store.num_workers()),
      in_(std::reduce(counts.begin(), counts.end())),
      out_(in_.size()) {
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    keys_.emplace_back(fmt::format("{} {}", name, keys_.size()));
    ins_.emplace_back(view(in_, at, count));
    outs_.emplace_back(view(out_, at, count));
    at += count;
  }
}

void Exchange::fill(std::uint64_t turn) {
  pattern_.fill(out_.data(), out_.size(), store_.rank(), turn + 1);
  pattern_.fill(in_.data(), in_.size(), store_.rank(), turn);
}

std::size_t Exchange::wrong(std::uint64_t turn) const {
  return pattern_.wrong_in_sum(out_.data(), out_.size(), turn);
}

Updates::Updates(KVStore& store, const std::string& name, std::size_t count)
    : store_(store), gradient_(count, 1.0F), weights_(count, 0.0F), keys_{Key(name)} {
  ins_.emplace_back(view(gradient_, 0, count));
  outs_.emplace_back(view(weights_, 0, count));
  store_.init(keys_, outs_);
  store_.set_optimizer({.name = "sgd", .parameters = {{"learning_rate", 1.0}}});
  store_.barrier();
}

void Updates::run() {
  std::ranges::fill(gradient_, 1.0F);  // like the result of a backward pass
  store_.pushpull(keys_, ins_, outs_).wait();
  ++done_;
}

std::size_t Updates::wrong(std::uint64_t all) {
  store_.pull(keys_, outs_).wait();
  const float right = -static_cast<float>(all);
  return static_cast<std::size_t>(
      std::ranges::count_if(weights_, [right](float found) { return found != right; }));
}

}  // namespace tutti::bench
