#include "recording_store.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "base/own_tensor.h"

using namespace tutti;

namespace {

std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, 4> names{"sum", "average", "min", "max"};
  return names.at(static_cast<std::size_t>(op));
}

std::string describe(const Optimizer& optimizer) {
  std::string text = optimizer.name;
  for (const auto& [name, value] : optimizer.parameters) text += fmt::format(" {}={}", name, value);
  for (const auto& [key, factors] : optimizer.factors) {
    text += fmt::format(" {}: {} and {}", key.describe(), factors.learning_rate, factors.wd);
  }
  return text;
}

}  // namespace

RecordingStore::RecordingStore()
    : Backend({.type = "recording",
               .rank = 1,
               .size = 3,
               .local_rank = 0,
               .local_size = 2,
               .nodes = 5,
               .methods = {Method::init, Method::push, Method::pull, Method::pushpull,
                           Method::broadcast, Method::reduce_scatter, Method::allgather,
                           Method::all_to_all, Method::row_sparse_pull, Method::set_optimizer,
                           Method::save_optimizer_states, Method::load_optimizer_states,
                           Method::set_gradient_compression, Method::num_dead_node, Method::send,
                           Method::recv}}) {}

void RecordingStore::hear(const std::string& what) {
  if (const auto failure = std::exchange(next_failure_, std::nullopt)) throw *failure;
  heard_ += (heard_.empty() ? "" : "; ") + what;
  if (added_) heard_ += added_();
}

std::string RecordingStore::take_heard() {
  return std::exchange(heard_, "");
}

std::string RecordingStore::describe(const Tensor& tensor) const {
  const auto it = names_.find(tensor.data());
  if (it != names_.end()) return it->second;
  return fmt::format("{} {} on {}", tutti::name(tensor.dtype()), tensor.shape().describe(),
                     tutti::name(tensor.device()));
}

std::string RecordingStore::describe(std::span<const Values> lists) const {
  std::string text;
  for (const Values& list : lists) {
    std::string one = list.empty() ? "-" : "";
    for (const Tensor& tensor : list) one += (one.empty() ? "" : "+") + describe(tensor);
    text += (text.empty() ? "" : ",") + one;
  }
  return text;
}

Pending RecordingStore::outcome() const {
  return Pending(outcome_ ? outcome_ : std::make_shared<base::Completion>(0, "a call"));
}

Pending RecordingStore::submit(const MethodCall& call) {
  std::string text = std::string(tutti::name(call.method));
  for (const Key& key : call.keys) text += " " + key.describe();
  if (!call.ins.empty()) text += " in " + describe(call.ins);
  if (!call.outs.empty()) text += " out " + describe(call.outs);
  for (const Tensor& rows : call.row_ids) text += " rows " + describe(rows);
  for (const std::size_t count : call.counts) text += fmt::format(" {}", count);
  text += fmt::format(" root {} priority {} {}", call.root, call.options.priority,
                      name_of(call.options.op));
  hear(text);
  return outcome();
}

Pending RecordingStore::pass(const PeerRequest& request) {
  hear(fmt::format("{} {} peer {} tag {}", tutti::name(request.method), describe(request.tensor),
                   request.peer, request.tag));
  if (request.source != nullptr) *request.source = 2;
  return outcome();
}

void RecordingStore::configure(const SettingCall& setting) {
  std::string text = fmt::format("{} {}", tutti::name(setting.method), setting.value);
  if (setting.optimizer != nullptr) text += " is " + ::describe(*setting.optimizer);
  if (setting.method == Method::set_gradient_compression)
    text += fmt::format(" {}", setting.threshold);
  if (setting.dump_optimizer) text += " and the optimizer";
  hear(text);
}

int RecordingStore::join() {
  hear("join");
  return 2;
}

Tensor RecordingStore::allocate(const Shape& shape, DType dtype) {
  hear(fmt::format("allocate {} {}", shape.describe(), tutti::name(dtype)));
  return base::own_tensor(shape, dtype);
}

Counters RecordingStore::counters() const {
  std::array<std::uint64_t, sizeof(Counters) / sizeof(std::uint64_t)> fields{};
  for (std::size_t i = 0; i < fields.size(); ++i) fields.at(i) = i + 1;
  return std::bit_cast<Counters>(fields);
}

std::vector<Choice> RecordingStore::choices() const {
  return {{"part size", "4M", "TUTTI_PART_BYTES"}, {"wire", "fp16", "program"}};
}
