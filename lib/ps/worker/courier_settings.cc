// The worker's thread: settings, and the states of optimizers, on their way to and from all
// servers.
#include <algorithm>
#include <utility>

#include "ps/worker/courier.h"

namespace tutti::ps {

std::shared_ptr<InFlightCall> Courier::new_call(
    const std::shared_ptr<base::Completion>& completion) const {
  auto call = std::make_shared<InFlightCall>();
  call->what = completion->what();
  call->completion = completion;
  return call;
}

void Courier::locate(const Change& change) {
  std::vector<Locate::Value> values;
  for (const auto& [key, state] : change.states) {
    // If there are no arrays, a rule misses nothing.
    const std::size_t count = count_of(state);
    if (count > 0) values.push_back({key, count, state.dtype, change.keeps_whole});
  }
  ask_for(values);
}

bool Courier::are_placed(const std::map<Key, optimizer::State>& states) const {
  return std::ranges::all_of(states, [&](const auto& one) {
    return count_of(one.second) == 0 || placed_.contains(one.first);
  });
}

bool Courier::send(Change& change) {
  if (!has_sent_tasks()) return false;
  if (!are_placed(change.states)) {
    locate(change);
    return false;
  }
  if (auto* const load = std::get_if<LoadStates>(&change.setting)) {
    for (const auto& [key, state] : change.states) {
      const auto it = placed_.find(key);
      if (!load->failure && it != placed_.end()) {
        load->failure =
            objection_to_size("load_optimizer_states", key, bytes_of(state), it->second.pieces);
      }
    }
    if (load->failure) change.states.clear();
  }
  const auto call = new_call(change.completion);
  call->is_setting = true;
  call->counts_if_failed = asynchronous_;
  send_states(change, call);
  return true;
}

/// The states come first. Then comes the setting, which makes them count.
void Courier::send_states(const Change& change, const std::shared_ptr<InFlightCall>& call) {
  std::size_t requests = servers_.size();
  for (const auto& [key, state] : change.states) {
    if (const auto it = placed_.find(key); it != placed_.end()) requests += it->second.pieces;
  }
  requests_->begin(call, requests);
  for (const auto& [key, state] : change.states) {
    const auto it = placed_.find(key);
    if (it == placed_.end()) continue;
    const std::uint32_t pieces = it->second.pieces;
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
      const auto server = static_cast<std::size_t>(it->second.server_of(piece));
      const std::vector<std::byte> bytes =
          packed({.rule = "", .states = {{key, part_of(state, piece, pieces)}}});
      const std::uint64_t sequence = requests_->add(server, call, piece, pieces, 0, true);
      send_to(server, SetState{sequence, {key, piece, pieces}, bytes});
    }
  }
  for (std::size_t server = 0; server < servers_.size(); ++server) {
    send_setting(change.setting, server, call);
  }
}

void Courier::send_setting(const Setting& setting, std::size_t server,
                           const std::shared_ptr<InFlightCall>& call) {
  // If several servers fail, the failure of the first server counts.
  const std::uint64_t sequence = requests_->add(server, call, static_cast<std::uint32_t>(server),
                                                static_cast<std::uint32_t>(servers_.size()));
  std::visit(
      [&](auto numbered) {
        numbered.sequence = sequence;
        send_to(server, numbered);
      },
      setting);
}

bool Courier::send(Survey& survey) {
  if (!has_sent_tasks()) return false;
  if (!survey.is_asked && survey.wants_states) {
    survey.is_asked = true;
    all_are_placed_ = false;
    scheduler_.send(LocateAll{});
  }
  if (survey.wants_states && !all_are_placed_) return false;
  send_survey(survey);
  return true;
}

void Courier::send_survey(const Survey& survey) {
  const auto call = new_call(survey.completion);
  call->take = [into = survey.into](std::uint32_t piece, std::uint32_t pieces,
                                    std::span<const std::byte> data) {
    into->push_back({piece, pieces, {data.begin(), data.end()}});
  };
  std::size_t requests = 1;
  if (survey.wants_states) {
    for (const auto& [key, places] : placed_) requests += places.pieces;
  }
  requests_->begin(call, requests);
  send_to(0, PullOptimizer{requests_->add(0, call, 0, 1)});
  if (!survey.wants_states) return;
  for (const auto& [key, places] : placed_) {
    const std::uint32_t pieces = places.pieces;
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
      const auto server = static_cast<std::size_t>(places.server_of(piece));
      send_to(server, PullState{requests_->add(server, call, piece, pieces), {key, piece, pieces}});
    }
  }
}

}  // namespace tutti::ps
