#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/failure.h"
#include "coordinator/types.h"
#include "tutti/error.h"

// The messages between a rank and the coordinator. They arrive in the order sent, in each
// direction. The receiver drops a message of an epoch that is over, except for the loss of a rank.
namespace tutti::coordinator {

/// Names a key with one agreed signature, so that neither travels again. Given by the coordinator
/// at the first agreement.
using KeyId = std::uint32_t;
/// Counts a key's uses, so that nobody's round w is paired with another's round w+1.
using Round = std::uint64_t;

using base::Failure;

struct ReadyCall {
  KeyId id = 0;
  std::int32_t priority = 0;
  Round round = 0;
  Time age{};  ///< since the user's call, so that a wait is counted across epochs
  friend bool operator==(const ReadyCall&, const ReadyCall&) = default;
};

/// Like `ReadyCall`, for a call without an id: a new key or a new signature.
struct FreshCall {
  Key key = 0;
  Signature signature;
  std::int32_t priority = 0;
  Round round = 0;
  Time age{};
  friend bool operator==(const FreshCall&, const FreshCall&) = default;
};

/// Calls in one report. More take several reports, so that none comes near `max_message_bytes`.
constexpr std::size_t max_report_calls = std::size_t{1} << 15;

/// The keys that became ready since the last report, and how far the rank is.
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

/// Answers `Drain`: every batch that was planned is done at this rank.
struct Drained {
  Epoch epoch = 0;
  friend bool operator==(const Drained&, const Drained&) = default;
};

/// The rank has its `Departed`: its end is no death.
struct Left {
  Epoch epoch = 0;
  friend bool operator==(const Left&, const Left&) = default;
};

enum class EscapeReason : std::uint8_t { deviation, request, slow_gate, waiting, overdue };

/// Replay does not fit this rank any more. It enters no gate of this epoch from now on.
struct Escape {
  Epoch epoch = 0;
  EscapeReason reason = EscapeReason::deviation;
  std::string detail;
  friend bool operator==(const Escape&, const Escape&) = default;
};

/// Answers `Stop`: enters no gate of this epoch beyond `entered`.
struct Stopped {
  Epoch epoch = 0;
  BatchNumber entered = 0;
  friend bool operator==(const Stopped&, const Stopped&) = default;
};

/// Both directions; terminal.
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

/// A key's round ended before it began; the same on every rank.
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

/// Every rank has drained, and nothing more will be asked of this one.
struct Departed {
  Epoch epoch = 0;
  friend bool operator==(const Departed&, const Departed&) = default;
};

struct Stop {
  Epoch epoch = 0;
  friend bool operator==(const Stop&, const Stop&) = default;
};

/// Begins `epoch`. In the epoch before, this message closes every gate below `closed`, and
/// withdraws the others. With a cycle, the rank replays it from its batch `first`; without one, the
/// ranks negotiate.
struct Resume {
  Epoch epoch = 0;
  BatchNumber closed = 0;
  std::vector<PlanBatch> cycle;
  std::uint64_t first = 0;
  friend bool operator==(const Resume&, const Resume&) = default;
};

using ToRank = std::variant<Plan, Failed, JoinOver, Drain, Departed, Stop, Resume, LostRank>;

/// `to` of a message for all ranks that have not left.
constexpr int everyone = -1;
struct Outgoing {
  int to = everyone;
  ToRank message;
};

}  // namespace tutti::coordinator
