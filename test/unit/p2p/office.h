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

/// Endpoints of several ranks, and what is on its way between them: frames in order between two
/// ranks, and transfers in order, each as late as the test likes.
class Office {
 public:
  using Pair = std::pair<int, int>;  ///< from, to

  Office(int size, Time limit);

  /// Both return a number that names the call in the whole office.
  CallId send(int from, int to, int tag = 0, std::uint64_t count = 1, DType dtype = DType::f32);
  CallId receive(int by, int from, int tag = 0, std::uint64_t count = 1, DType dtype = DType::f32);
  void close(int rank);
  /// All ranks' time.
  void pass(Time time);
  /// As if the rank's loss of the store were seen here before anything else of it.
  void depart(int seen_by, int rank);

  /// One frame or one transfer arrives. False: nothing is on its way.
  bool deliver(std::mt19937_64& random);
  /// A part of a transfer moves.
  void move_part(int from, int to);
  /// Everything arrives.
  void deliver_all();

  bool is_over(CallId call) const { return ends_.contains(call); }
  /// The end of a call that is over.
  const Finish& end(CallId call) const { return ends_.at(call); }
  bool is_good(CallId call) const { return is_over(call) && !end(call).error; }
  /// The code of a call's error.
  ErrorCode code(CallId call) const { return end(call).error->code(); }
  /// The send whose elements this receive got.
  CallId got(CallId receive) const { return got_.at(receive); }
  const Endpoint& endpoint(int rank) const { return endpoints_[static_cast<std::size_t>(rank)]; }

 private:
  void act(int rank);

  std::vector<Endpoint> endpoints_;
  std::map<Pair, std::deque<Frame>> frames_;
  std::map<Pair, std::deque<CallId>> leaving_;
  std::map<Pair, std::deque<CallId>> coming_;
  std::map<CallId, Finish> ends_;
  std::map<CallId, CallId> got_;
  CallId calls_ = 0;
  Time now_{};
};

}  // namespace tutti::p2p::test
