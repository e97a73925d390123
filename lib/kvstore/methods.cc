#include "kvstore/methods.h"

#include <fmt/format.h>

#include <array>

#include "base/printable.h"

namespace tutti {
namespace {

struct NamedMethod {
  std::string_view name;
  std::string_view instead;
};

/// The entries have the order of Method. `instead` is the call to make with any type that lacks the
/// method.
constexpr std::array<NamedMethod, method_count> methods{{
    {"init", "call broadcast(key, values, root_rank): every rank gets the root's value"},
    {"push", "call pushpull(key, ins, outs): it sums over devices and ranks, and returns the sum"},
    {"pull",
     "call pushpull(key, ins, outs) for a sum, or broadcast(key, values, root_rank) for the "
     "root's value"},
    {"pushpull", "call push, then pull"},
    {"broadcast", "call init, then pull"},
    {"reduce_scatter", "call pushpull, and take this rank's shard of the result"},
    {"allgather", "call pushpull with a tensor that is 0 outside this rank's shard"},
    {"all_to_all",
     "call pushpull with a tensor that has a place for each pair of ranks, and is "
     "0 except for what this rank sends"},
    {"row_sparse_pull", "keep the value dense and let pushpull or broadcast fill it"},
    {"set_optimizer", "update the weights in the program, after pushpull"},
    {"save_optimizer_states", "the optimizer runs in the program: save its state there, on rank 0"},
    {"load_optimizer_states",
     "the optimizer runs in the program: load its state there, or broadcast it from rank 0"},
    {"set_gradient_compression", "convert to a 16-bit dtype in the program"},
    {"num_dead_node", "catch the peer_lost error, which names the ranks that are lost"},
    {"send", "ask for a store of type 'dist_sync_mpi', beside this one if need be"},
    {"recv", "ask for a store of type 'dist_sync_mpi', beside this one if need be"},
}};

const NamedMethod& entry(Method method) {
  return methods.at(static_cast<std::size_t>(method));
}

}  // namespace

std::string_view name(Method method) {
  return entry(method).name;
}

void require(const Traits& traits, Method method) {
  if (traits.methods.contains(method)) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("{} is not supported by store type '{}'; instead, {}", name(method),
                          traits.type, entry(method).instead));
}

void refuse_late(const SettingCall& setting, std::string_view why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}({}) came after the first tensor{}; call it right after create",
                          name(setting.method), base::quoted(setting.value), why));
}

void refuse_closed(std::string_view method) {
  throw Error(ErrorCode::aborted,
              fmt::format("{} of a store that is closed; KVStore::create makes another", method));
}

}  // namespace tutti
