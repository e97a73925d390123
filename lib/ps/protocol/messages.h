#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/failure.h"
#include "net/message_stream.h"
#include "tutti/error.h"
#include "tutti/key.h"
#include "tutti/optimizer.h"
#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

/// The messages between the processes of a parameter-server job. PROTOCOL.md says when they are
/// sent.
namespace tutti::ps {

enum class Role : std::uint8_t { scheduler, server, worker };
/// "scheduler", "server", "worker".
std::string_view name(Role role);

/// The ranks of a failure are those of workers.
using base::Failure;

/// No value has more pieces.
inline constexpr std::uint32_t most_pieces = std::uint32_t{1} << 26;

/// Names a piece of a value.
struct PieceName {
  Key key = 0;
  std::uint32_t index = 0;
  std::uint32_t pieces = 1;

  friend bool operator==(const PieceName&, const PieceName&) = default;
};

// Messages from a node to the scheduler.

/// The staleness of an asynchronous store in which a worker may be any number of pushes ahead of
/// the slowest.
inline constexpr int unbounded = -1;

/// A piece that a server brings from an earlier job.
struct Held {
  PieceName piece;
  std::uint64_t count = 0;  ///< its elements
  DType dtype = DType::f32;
};

/// The progress of a server of an earlier job in the state that it left. If all keys are pushed
/// equally often, servers' states of the same moment have the same number of rounds.
struct Moment {
  int server = 0;
  std::uint64_t rounds = 0;  ///< the most that a value there had been in
  bool is_last = false;      ///< the state was left when all workers had left

  friend bool operator==(const Moment&, const Moment&) = default;
};

/// A state with which a server may begin.
struct Brought {
  std::uint64_t job = 0;     ///< the job of the state; 0 if the state is empty
  std::vector<Held> held{};  ///< the pieces in it
  /// Only for a synchronous job: the moment of this server's own state. If the server restores
  /// another job's state, the moments of all servers of that job.
  std::vector<Moment> moments{};
};

struct Register {
  Role role = Role::worker;
  int rank = -1;  ///< the one it would like; -1: any
  int workers = 0;
  int servers = 0;
  std::string version{};
  bool asynchronous = false;  ///< for a worker: its store type
  std::string address{};      ///< for a server: the address at which it listens for workers
  std::uint16_t port = 0;
  int staleness = unbounded;  ///< for an asynchronous worker
  bool durable = false;       ///< for a server: whether it goes on after it was started again
  /// For a server: whether messages between it and workers outlive connections.
  bool keeps = false;
  /// For a server: the states with which it may begin, the older first. There are two if an earlier
  /// start was interrupted.
  std::vector<Brought> brings{};
  std::string host{};
  int process = 0;
  /// For a worker: the number from `Staying`; 0 if it has none.
  std::uint64_t membership = 0;
  std::string host_identity{};  ///< tells hosts of one name apart
};
/// A worker's process sends this on a connection of its own, before its first store. The process
/// counts as there for as long as this connection lasts, whether or not it has a store.
struct Stay {};
/// A server sends this when the state with which it begins the job is on its disk.
struct Ready {};
struct BarrierArrival {};
/// Asks which servers have these values. The first worker to name a key decides.
struct Locate {
  struct Value {
    Key key;
    std::uint64_t count = 0;
    DType dtype = DType::f32;
    bool whole = false;  ///< whether it must be in one piece, whatever its size
  };
  std::vector<Value> values;
};
/// Asks where all placed values are.
struct LocateAll {};
/// To scheduler and servers: this worker makes no new calls.
struct Goodbye {};
/// After Goodbye: none of this worker's calls is under way any more.
struct Finished {};
/// The node ends before the job is over, so the others cannot count on it.
struct Stopping {
  std::string reason;
};
/// Asks a server to read the worker's requests up to this one, even if the worker is far ahead. A
/// worker sends it to the scheduler, with the server's `rank`. The scheduler sends it to the
/// server, with the worker's `rank`.
struct ReadOn {
  int rank = 0;
  std::uint64_t sequence = 0;
};
using ToScheduler = std::variant<Register, BarrierArrival, Locate, Goodbye, Finished, LocateAll,
                                 Stopping, Ready, Stay, ReadOn>;

// Messages from the scheduler to a node.

struct Refused {
  Failure failure;
};
/// Tells a worker that all nodes are there and that the servers begin.
struct Gathered {};
/// Tells a server that all nodes are there. Tells a worker that all servers are ready, too.
struct Welcome {
  struct ServerAddress {
    std::string address;
    std::uint16_t port = 0;
    bool durable = false;
    bool keeps = false;
  };
  /// The place of a worker among the workers of its host, and the number of hosts with workers.
  struct Locality {
    int local_rank = 0;
    int local_size = 1;
    int hosts = 1;

    friend bool operator==(const Locality&, const Locality&) = default;
  };
  int rank = 0;
  bool asynchronous = false;
  std::vector<ServerAddress> servers{};  ///< by rank
  int staleness = unbounded;
  std::uint64_t job = 0;  ///< a number that no other job has
  /// Keys of which the servers brought only some pieces. Servers keep nothing of these.
  std::vector<Key> dropped{};
  Locality place{};               ///< for a worker
  std::uint64_t begins_with = 0;  ///< for a server: the job of the state with which it is to begin
  std::string doubt{};            ///< for a worker: a doubt about that state
};
/// Tells a server that all servers are ready, so its prepared state takes the place of its old one.
struct Begin {};
/// The places of the pieces of a value: piece i is shard i of `pieces`. Usually the pieces go round
/// the servers, so that many pieces take no more room here than few. If servers brought the pieces
/// of a value in another order, each piece has its own entry.
struct Places {
  std::vector<int> servers;  ///< in turn; there are at most as many as pieces
  std::uint32_t pieces = 1;

  int server_of(std::uint32_t piece) const { return servers[piece % servers.size()]; }
  friend bool operator==(const Places&, const Places&) = default;
};
struct Placement {
  Key key;
  Places places;
};
/// Throws `internal` if the placement names a server that a job with this many servers does not
/// have.
void check_servers(const Placement& placement, int servers);
struct Located {
  std::vector<Placement> placements;
  bool all = false;  ///< answers LocateAll
};
struct BarrierRelease {
  std::optional<Failure> failure;
};
struct Lost {
  Role role = Role::worker;
  int rank = 0;
  std::string reason;
};
/// All workers have finished: the store is over.
struct End {};
/// Tells a server, some time after `End`, that workers create another store, so it registers anew.
struct Another {};
/// Tells a server, some time after `End`, that all workers' processes have ended, so the job is
/// over.
struct Over {};
/// A durable server is lost. The job waits for it.
struct Away {
  int rank = 0;
  std::string reason;
};
/// A server that was away has been started again, and listens at this address.
struct Returned {
  int rank = 0;
  std::string address;
  std::uint16_t port = 0;
};
/// Answers the `Stay` of a worker's process.
struct Staying {
  std::uint64_t membership = 0;  ///< not 0
};
using FromScheduler = std::variant<Refused, Welcome, Located, BarrierRelease, Lost, End, Away,
                                   Returned, Gathered, Begin, Another, Over, Staying, ReadOn>;

// Messages from a worker to a server. `sequence` numbers the worker's requests to this server, from
// 1 on.

enum class Kind : std::uint8_t { init, broadcast, push, pushpull };
/// The name of the kind: "init", "broadcast", ...
std::string_view name(Kind kind);

/// The encoding in which the elements of a contribution travel.
enum class Encoding : std::uint8_t { none, fp16, bf16, two_bits, one_bit };
/// The name as `KVStore::set_gradient_compression` takes it: "none", "fp16", "bf16", "2bit",
/// "1bit".
std::string_view name(Encoding encoding);

struct Compression {
  Encoding encoding = Encoding::none;
  float threshold = 0;  ///< for two_bits and one_bit

  friend bool operator==(const Compression&, const Compression&) = default;
};

/// A place in memory that a worker shares with a server of its machine. It belongs to the request
/// until the answer has come. First it holds the elements of the request, and then those of the
/// answer.
struct Room {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t filled = 0;  ///< this many bytes of it are the request's elements

  friend bool operator==(const Room&, const Room&) = default;
};

/// A worker's part in a round.
struct Contribution {
  std::uint64_t sequence = 0;
  PieceName piece{};
  Kind kind = Kind::push;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  DType dtype = DType::f32;
  Shape shape{};              ///< of the whole value
  Compression compression{};  ///< of the data
  /// The elements of the piece. There are none if another worker's count. They are in the memory of
  /// the sender, or in the decoded bytes.
  std::span<const std::byte> data{};
  std::shared_ptr<const void> keeper{};  ///< keeps `data`; none: it must be copied to be kept
  std::optional<Room> room{};
  /// On the server: the address of the room, into which the answer's elements may be put.
  std::span<std::byte> place{};
};
struct Pull {
  std::uint64_t sequence = 0;
  PieceName piece{};
  DType dtype = DType::f32;
  Shape shape{};
  /// Only these rows of the whole value, ascending, and only the parts of them that are in this
  /// piece.
  std::optional<std::vector<std::int64_t>> rows{};
  std::optional<Room> room{};
};
/// Takes the place of a contribution of this kind, which its worker gives up before it has sent it.
/// The round fails with this failure for all workers.
struct Withdrawal {
  std::uint64_t sequence = 0;
  PieceName piece{};
  Kind kind = Kind::push;
  Failure failure{};
};
/// A call has reached its worker's time limit, and this contribution or setting of the call was
/// sent. First the worker holds each one that is not answered; the server executes none that is
/// held. If a server had executed one before, the worker releases the others, and the call goes on.
/// Otherwise the worker gives them up, and their rounds fail with this failure for all workers.
struct Recall {
  enum class Step : std::uint8_t { hold, release, give_up };
  std::uint64_t sequence = 0;
  std::uint64_t request = 0;         ///< the sequence of the recalled request
  std::optional<PieceName> piece{};  ///< none: the recall is of a setting
  Step step = Step::hold;
  std::optional<Failure> failure{};  ///< for `give_up`
};
/// Asks for the optimizer. The answer has the bytes of `optimizer::write_saved` without states.
struct PullOptimizer {
  std::uint64_t sequence = 0;
};
/// Asks for the optimizer's state of a piece. The answer has such bytes with one state, or no bytes
/// if there is no state.
struct PullState {
  std::uint64_t sequence = 0;
  PieceName piece{};
};
/// Asks for which workers this worker's first request for a piece waits. Without a piece, asks the
/// same of its first setting. The server answers at once, with a failure that names them. An answer
/// without a failure means that it waits for nobody.
struct FindMissing {
  std::uint64_t sequence = 0;
  std::optional<PieceName> piece{};
};
/// A state for a piece, in such bytes. It counts once LoadStates is applied.
struct SetState {
  std::uint64_t sequence = 0;
  PieceName piece{};
  std::span<const std::byte> data{};  ///< as in Contribution
};

// Settings. Each worker makes all of them, in the same order.

struct SetOptimizer {
  std::uint64_t sequence = 0;
  Optimizer optimizer;
};
struct SetCompression {
  std::uint64_t sequence = 0;
  Compression compression;
};
/// The states that worker 0 has sent before replace all others. Only worker 0's message counts.
struct LoadStates {
  std::uint64_t sequence = 0;
  std::optional<Failure> failure{};      ///< why worker 0 brings none
  std::string rule{};                    ///< the rule to which the states belong
  std::optional<Optimizer> optimizer{};  ///< an optimizer to be set together with the states
};
using Setting = std::variant<SetOptimizer, SetCompression, LoadStates>;

using ToServer =
    std::variant<Contribution, Pull, SetOptimizer, Goodbye, SetCompression, PullOptimizer,
                 PullState, SetState, LoadStates, Withdrawal, FindMissing, Recall>;

/// From a server to a worker, once for each request.
struct Answer {
  /// 0: no request is answered; the server hears the worker no more, and `failure` says why.
  std::uint64_t sequence = 0;
  std::optional<Failure> failure;
  std::span<const std::byte> data{};  ///< as in Contribution
  std::shared_ptr<const void> keeper{};
  /// The room of the request. If `filled`, this many bytes of the answer's elements are in it. Only
  /// `filled` travels on the wire.
  std::optional<Room> room{};
};

/// The most bytes of elements for which a message has room, besides the table in front of them.
inline constexpr std::size_t most_elements_bytes = net::max_message_bytes - (std::size_t{1} << 16);

/// Limits that no program reaches: the keys of a job, and the requests of one worker that wait at
/// one server. A worker that exceeds one is refused.
inline constexpr std::size_t most_keys = std::size_t{1} << 20;
inline constexpr std::size_t most_waiting_requests = std::size_t{1} << 20;

/// Whether the worker that sends this contribution sends elements, and whether it gets any back.
inline bool brings_data(const Contribution& said, int worker) {
  if (said.kind == Kind::init) return worker == 0;
  return said.kind != Kind::broadcast || worker == said.root;
}
inline bool wants_data(const Contribution& said, int worker) {
  if (said.kind == Kind::broadcast) return worker != said.root;
  return said.kind == Kind::pushpull;
}

}  // namespace tutti::ps
