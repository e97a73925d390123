#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/failure.h"
#include "coordinator/types.h"
#include "tutti/error.h"

// The messages between a rank and the coordinator. In each direction they arrive in the order in
// which they were sent. The receiver drops a message of an epoch that is over, unless it reports
// the loss of a rank.
namespace tutti::coordinator {

/// Names a key with one agreed signature, so that neither of them travels again. The coordinator
/// gives it when the ranks first agree.
using KeyId = std::uint32_t;
/// Counts the uses of a key. So no rank's round w is paired with another rank's round w+1.
using Round = std::uint64_t;

using base::Failure;

struct ReadyCall {
  KeyId id = 0;
  std::int32_t priority = 0;
  Round round = 0;
  Time age{};  ///< the time since the user's call, so that a wait is counted across epochs
  friend bool operator==(const ReadyCall&, const ReadyCall&) = default;
};

/// Like `ReadyCall`, for a call without an id: the key or its signature is new.
struct FreshCall {
  Key key = 0;
  Signature signature;
  std::int32_t priority = 0;
  Round round = 0;
  Time age{};
  friend bool operator==(const FreshCall&, const FreshCall&) = default;
};

/// The most calls in one report. More calls take several reports, so that no report comes near
/// `max_message_bytes`.
constexpr std::size_t max_report_calls = std::size_t{1} << 15;

/// The keys that became ready since the last report, and how far the rank has come.
struct Report {
  Epoch epoch = 0;
  BatchNumber entered = 0;  ///< gates entered in this epoch
  std::vector<ReadyCall> ready;
  std::vector<FreshCall> fresh;
  friend bool operator==(const Report&, const Report&) = default;
};

struct JoinAsked {
  Epoch epoch = 0;
  friend bool operator==(const JoinAsked&, const JoinAsked&) = default;
};

struct DepartAsked {
  Epoch epoch = 0;
  friend bool operator==(const DepartAsked&, const DepartAsked&) = default;
};

/// Answers `Drain`: every planned batch is done at this rank.
struct Drained {
  Epoch epoch = 0;
  friend bool operator==(const Drained&, const Drained&) = default;
};

/// The rank has received its `Departed`. From now on its end is no death.
struct Left {
  Epoch epoch = 0;
  friend bool operator==(const Left&, const Left&) = default;
};

enum class EscapeReason : std::uint8_t { deviation, request, slow_gate, waiting, overdue };

/// The replay does not fit this rank any more. The rank enters no further gate of this epoch.
struct Escape {
  Epoch epoch = 0;
  EscapeReason reason = EscapeReason::deviation;
  std::string detail;
  friend bool operator==(const Escape&, const Escape&) = default;
};

/// Answers `Stop`: the rank enters no gate of this epoch beyond `entered`.
struct Stopped {
  Epoch epoch = 0;
  BatchNumber entered = 0;
  friend bool operator==(const Stopped&, const Stopped&) = default;
};

/// May go in both directions. Terminal.
struct LostRank {
  int rank = 0;
  std::string reason;
  friend bool operator==(const LostRank&, const LostRank&) = default;
};

using ToCoordinator =
    std::variant<Report, JoinAsked, DepartAsked, Drained, Left, Escape, Stopped, LostRank>;

struct Agreement {
  KeyId id = 0;
  Key key = 0;
  Signature signature;
  friend bool operator==(const Agreement&, const Agreement&) = default;
};

struct PlanPart {
  KeyId id = 0;
  Round round = 0;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  friend bool operator==(const PlanPart&, const PlanPart&) = default;
};

struct PlanBatch {
  int active_ranks = 0;
  bool acknowledge = false;  ///< report soon after entering it: more waits to be planned
  std::vector<PlanPart> parts;
  friend bool operator==(const PlanBatch&, const PlanBatch&) = default;
};

/// The next batches, numbered from `first`.
struct Plan {
  Epoch epoch = 0;
  BatchNumber first = 0;
  std::vector<Agreement> agreements;
  std::vector<PlanBatch> batches;
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// The round of a key ended before it began. Every rank gets the same message.
struct Failed {
  Epoch epoch = 0;
  Key key = 0;
  Round round = 0;
  Failure failure;
  friend bool operator==(const Failed&, const Failed&) = default;
};

struct JoinOver {
  Epoch epoch = 0;
  int last = 0;
  std::optional<Failure> failure;
  friend bool operator==(const JoinOver&, const JoinOver&) = default;
};

/// A rank leaves, and nothing more will be planned. The receiver answers when all planned batches
/// are done.
struct Drain {
  Epoch epoch = 0;
  friend bool operator==(const Drain&, const Drain&) = default;
};

/// Every rank has drained. The coordinator will ask nothing more of this one.
struct Departed {
  Epoch epoch = 0;
  friend bool operator==(const Departed&, const Departed&) = default;
};

struct Stop {
  Epoch epoch = 0;
  friend bool operator==(const Stop&, const Stop&) = default;
};

/// Begins `epoch`. In the epoch before, this message closes every gate below `closed`, and
/// withdraws the others. If it has a cycle, the rank replays it from the batch `first` of the
/// cycle. Otherwise the ranks negotiate.
struct Resume {
  Epoch epoch = 0;
  BatchNumber closed = 0;
  std::vector<PlanBatch> cycle;
  std::uint64_t first = 0;
  friend bool operator==(const Resume&, const Resume&) = default;
};

using ToRank = std::variant<Plan, Failed, JoinOver, Drain, Departed, Stop, Resume, LostRank>;

/// The `to` of a message for all ranks that have not left.
constexpr int everyone = -1;
struct Outgoing {
  int to = everyone;
  ToRank message;
};

}  // namespace tutti::coordinator
