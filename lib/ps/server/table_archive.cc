// A server's table in its state: values, requests that wait, and what workers have sent before.
#include <algorithm>
#include <utility>

#include "ps/protocol/states.h"
#include "ps/protocol/wire.h"
#include "ps/server/table.h"

namespace tutti::ps {
namespace {

void put(ArchiveWriter& to, const Setting& setting) {
  std::visit([&](const auto& one) { to.put(encode(ToServer(one))); }, setting);
}

/// Reads the request that `put` wrote. Its elements stay in `bytes`.
template <typename Use>
void with_request(ArchiveReader& from, const Use& use) {
  const net::Bytes bytes = from.copy();
  std::visit(use, decode_to_server(bytes));
}

[[noreturn]] void misplaced() {
  throw Error(ErrorCode::invalid_argument,
              "a server's state has a request where it does not belong");
}

Setting setting_in(ArchiveReader& from) {
  std::optional<Setting> setting;
  with_request(from, [&]<typename Request>(const Request& request) {
    if constexpr (std::is_constructible_v<Setting, Request>) {
      setting = request;
    } else {
      misplaced();
    }
  });
  return *setting;
}

net::Bytes packed_optimizer(const std::optional<Optimizer>& optimizer) {
  if (!optimizer) return {};
  return packed({.rule = optimizer->name, .optimizer = optimizer});
}

}  // namespace

void Piece::save(ArchiveWriter& to) const {
  value_.save(to);
  for (const std::uint64_t pushes : pushes_) to.put(pushes);
  to.put(rounds_);
  for (const Queue& queue : queues_) {
    to.put(std::uint64_t{queue.size()});
    for (const Queued& request : queue) {
      std::visit([&](const auto& said) { to.put(encode(ToServer(said))); }, request.said);
      to.put(std::uint64_t{request.is_held});
      to.put(request.given_up);
    }
  }
  tombstones_.save(to);
}

void Piece::load(ArchiveReader& from) {
  value_.load(from);
  for (std::uint64_t& pushes : pushes_) pushes = from.number();
  rounds_ = from.number();
  for (int worker = 0; worker < rules_.workers; ++worker) {
    for (std::uint64_t left = from.number(); left > 0; --left) {
      with_request(from, [&](const auto& said) {
        if constexpr (requires { add(worker, said); }) {
          add(worker, said);
        } else {
          misplaced();
        }
      });
      Queued& request = queues_[static_cast<std::size_t>(worker)].back();
      set_held(request, from.number(1) == 1);
      request.given_up = from.failure();
    }
  }
  tombstones_.load(from);
}

void SettingsQueue::save(ArchiveWriter& to) const {
  for (const auto& queue : queues_) {
    to.put(std::uint64_t{queue.size()});
    for (const Queued& request : queue) {
      put(to, request.setting);
      to.put(std::uint64_t{request.is_held});
      to.put(request.given_up);
    }
  }
  tombstones_.save(to);
  for (const std::size_t answered : answered_) to.put(std::uint64_t{answered});
  to.put(std::uint64_t{forgotten_});
  to.put(std::uint64_t{applied_.size()});
  for (const Applied& one : applied_) {
    to.put(std::uint64_t(one.worker));
    put(to, one.setting);
    to.put(one.failure);
  }
}

void SettingsQueue::load(ArchiveReader& from) {
  for (auto& queue : queues_) {
    for (std::uint64_t left = from.number(); left > 0; --left) {
      Setting setting = setting_in(from);
      const bool is_held = from.number(1) == 1;
      queue.push_back({std::move(setting), is_held, from.failure()});
    }
  }
  tombstones_.load(from);
  for (std::size_t& answered : answered_) answered = from.number();
  forgotten_ = from.number();
  for (std::uint64_t left = from.number(); left > 0; --left) {
    const int worker = static_cast<int>(from.number());
    Setting setting = setting_in(from);
    applied_.push_back({worker, std::move(setting), from.failure()});
  }
}

std::uint64_t Table::rounds() const {
  std::uint64_t most = 0;
  for (const auto& [key, place] : places_) {
    for (const auto& [index, piece] : place.held) most = std::max(most, piece->rounds());
  }
  return most;
}

bool Table::is_finished() const {
  return std::ranges::all_of(rules_.absent, [](const auto& absent) {
    return absent && absent->code == ErrorCode::aborted;
  });
}

std::vector<Table::PieceContent> Table::contents() const {
  std::vector<PieceContent> contents;
  for (const auto& [key, place] : places_) {
    for (const auto& [index, piece] : place.held) {
      if (auto content = piece->content()) {
        contents.push_back({{key, index, place.pieces}, *std::move(content)});
      }
    }
  }
  return contents;
}

void Table::inherit(const std::optional<Optimizer>& optimizer, std::vector<PieceContent> contents) {
  rules_.optimizer = optimizer;
  for (PieceContent& one : contents) find(one.name).inherit(std::move(one.content));
}

void Table::save(ArchiveWriter& to) const {
  to.put(packed_optimizer(rules_.optimizer));
  for (const std::uint64_t received : received_) to.put(received);
  for (const std::uint64_t answered : answered_) to.put(answered);
  for (const auto& absent : rules_.absent) to.put(absent);
  settings_.save(to);
  to.put(std::uint64_t{brought_.size()});
  for (const auto& [sequence, one] : brought_) {
    const net::Bytes state = packed({.rule = "", .states = {{one.piece.key, one.state}}});
    to.put(encode(ToServer(SetState{sequence, one.piece, state})));
  }
  std::uint64_t pieces = 0;
  for (const auto& [key, place] : places_) pieces += place.held.size();
  to.put(pieces);
  for (const auto& [key, place] : places_) {
    for (const auto& [index, piece] : place.held) {
      to.put(PieceName{key, index, place.pieces});
      piece->save(to);
    }
  }
}

void Table::load(ArchiveReader& from) {
  if (const net::ConstBytes bytes = from.bytes(); !bytes.empty()) {
    rules_.optimizer = unpacked(bytes).optimizer;
  }
  for (std::uint64_t& received : received_) received = from.number();
  for (std::uint64_t& answered : answered_) answered = from.number();
  for (auto& absent : rules_.absent) absent = from.failure();
  settings_.load(from);
  for (std::uint64_t left = from.number(); left > 0; --left) {
    with_request(from, [&]<typename Request>(const Request& request) {
      if constexpr (std::is_same_v<Request, SetState>) {
        auto states = unpacked(request.data).states;
        if (states.empty()) misplaced();
        brought_.emplace(request.sequence,
                         BroughtState{request.piece, std::move(states.begin()->second)});
      } else {
        misplaced();
      }
    });
  }
  for (std::uint64_t left = from.number(); left > 0; --left) find(from.piece_name()).load(from);
}

}  // namespace tutti::ps
