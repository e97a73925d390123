#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/completion.h"
#include "ps/protocol/messages.h"

namespace tutti::ps {

/// One key of a method call, as a worker sends it.
struct Task {
  std::optional<Kind> kind{};  ///< none: a pull
  Key key = 0;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  DType dtype = DType::f32;
  Shape shape{};
  Tensor in{};                 ///< this worker's contribution; empty if it contributes nothing
  std::vector<Tensor> outs{};  ///< for the results
  /// For a pull: only these rows, ascending. The others become zeros.
  std::optional<std::vector<std::int64_t>> rows{};
  int priority = 0;
  Compression compression{};
  /// A literal: the name by which the program has made the call, if that is not the method's.
  std::string_view called{};

  /// Describes the task: "push of key 'w'".
  std::string describe() const;
};

/// A task or a setting on its way. It is over when all servers to which it went have answered.
struct InFlightCall {
  Task task{};
  std::optional<Key> key{};    ///< of a task
  std::optional<Kind> kind{};  ///< of a task
  int priority = 0;            ///< of a task
  bool is_setting = false;
  bool is_of_one = false;  ///< an asynchronous push: other workers have no part in it
  /// For an asynchronous setting: it counts when a server has answered it, even with a failure.
  bool counts_if_failed = false;
  std::string what{};
  std::shared_ptr<base::Completion> completion{};  ///< none: it is over
  /// For a task: the reason why its unsent pieces will not be sent.
  std::optional<Failure> withdrawn{};
  base::Clock::time_point begun{};
  /// Takes the data of the answer for one of `pieces` pieces. If it is empty, the data go to the
  /// outputs.
  std::function<void(std::uint32_t piece, std::uint32_t pieces, std::span<const std::byte> data)>
      take{};
  std::size_t unanswered = 0;  ///< includes requests that are still to be sent
  /// The failure of the first piece that failed, which is the same on all workers.
  std::exception_ptr failure{};
  std::uint32_t failed_piece = 0;
  bool is_executed = false;   ///< a server has executed a part of it in a round, or counts it
  bool is_overdue = false;    ///< its time limit has passed
  bool is_undecided = false;  ///< servers hold the parts that were sent, and nothing more is sent

  /// Whether the call ends in the same way on all workers, within a round.
  bool takes_part() const { return kind || is_setting; }

  /// The newest answer to the question which workers are missing. It comes from a server that still
  /// has to answer the call.
  struct Missing {
    std::size_t server = 0;
    Failure who{};
  };
  std::optional<Missing> missing{};
  base::Clock::duration asked_for{};  ///< the last report, or the end, that servers were asked for
  /// For a call that reads: the time at which its time limit began once more.
  std::optional<base::Clock::time_point> anew{};
};

}  // namespace tutti::ps
