#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "p2p/endpoint.h"

namespace tutti::p2p::test {

/// Numbers of f32 whose sends are eager, as long as there is room, or are not.
constexpr std::uint64_t small = 1;
constexpr std::uint64_t large = EagerSends::largest / 4 + 1;

/// Endpoints of several ranks, and the data on their way between them. Frames and transfers between
/// two ranks stay in order. Each may be as late as the test wants. It checks the promises on which
/// carriers rely.
class Office {
 public:
  using Pair = std::pair<int, int>;  ///< from, to

  /// `usual`: how many elements a call has that does not say so.
  Office(int size, SessionTime limit, std::uint64_t usual = small);

  /// Both return a number that names the call in the whole office.
  TransferId send(int from, int to, int tag = 0, std::optional<std::uint64_t> count = {},
                  DType dtype = DType::f32);
  TransferId receive(int by, int from, int tag = 0, std::optional<std::uint64_t> count = {},
                     DType dtype = DType::f32);
  void close(int rank);
  /// All ranks' time.
  void pass(SessionTime time);
  /// Lets a rank see the departure of another rank before anything else from it.
  void depart(int seen_by, int rank);

  /// One frame or one transfer arrives. False: nothing is on its way.
  bool deliver(std::mt19937_64& random);
  /// Frames arrive that were posted before the present time.
  void deliver_older();
  /// A part of a transfer moves.
  void move_part(int from, int to);
  /// Everything arrives.
  void deliver_all();

  bool is_over(TransferId call) const { return ends_.contains(call); }
  /// The end of a call that is over.
  const TransferDone& end(TransferId call) const { return ends_.at(call); }
  bool is_good(TransferId call) const { return is_over(call) && !end(call).error; }
  /// The code of a call's error.
  ErrorCode code(TransferId call) const { return end(call).error->code(); }
  /// The send whose elements this receive got.
  TransferId got(TransferId receive) const { return got_.at(receive); }
  const Endpoint& endpoint(int rank) const { return endpoints_[static_cast<std::size_t>(rank)]; }

 private:
  struct Letter {
    Frame frame;
    Payload elements;
    SessionTime posted{};
  };

  void act(int rank);
  void post(int from, const Post& post);
  void hear(const Pair& way);

  std::vector<Endpoint> endpoints_;
  std::uint64_t usual_;
  std::map<Pair, std::deque<Letter>> letters_;
  std::map<Pair, std::deque<TransferId>> leaving_;
  std::map<Pair, std::deque<TransferId>> coming_;
  std::map<TransferId, TransferDone> ends_;
  std::map<TransferId, TransferId> got_;
  TransferId calls_ = 0;
  SessionTime now_{};
};

}  // namespace tutti::p2p::test
