#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tutti/error.h"
#include "tutti/key.h"
#include "tutti/optimizer.h"
#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

/// What the processes of a parameter-server job say to each other; PROTOCOL.md tells when.
namespace tutti::ps {

enum class Role : std::uint8_t { scheduler, server, worker };
/// "scheduler", "server", "worker".
std::string_view name(Role role);

/// An error on its way to the process that throws it.
struct Failure {
  ErrorCode code = ErrorCode::internal;
  std::string text;
  std::vector<int> ranks;  ///< of workers, as in `Error::ranks`

  friend bool operator==(const Failure&, const Failure&) = default;
};

// From a node to the scheduler.

struct Register {
  Role role = Role::worker;
  int rank = -1;  ///< the one it would like; -1: any
  int workers = 0;
  int servers = 0;
  std::string version;
  bool asynchronous = false;  ///< of a worker: its store type
  std::string address;        ///< of a server: where it listens for workers
  std::uint16_t port = 0;
};
struct BarrierAsked {};
/// Asks on which servers these values are. The first worker to name a key decides.
struct Locate {
  struct Value {
    Key key;
    std::uint64_t count = 0;
    DType dtype = DType::f32;
  };
  std::vector<Value> values;
};
/// To scheduler and servers: this worker makes no new calls.
struct Goodbye {};
/// After Goodbye: and none of its calls is under way any more.
struct Finished {};
using ToScheduler = std::variant<Register, BarrierAsked, Locate, Goodbye, Finished>;

// From the scheduler to a node.

struct Refused {
  Failure failure;
};
/// All are there.
struct Welcome {
  struct Server {
    std::string address;
    std::uint16_t port = 0;
  };
  int rank = 0;
  bool asynchronous = false;
  std::vector<Server> servers;  ///< by rank
};
/// Piece i of the value, shard i of as many as there are servers here, is on `servers[i]`.
struct Placement {
  Key key;
  std::vector<int> servers;
};
struct Located {
  std::vector<Placement> placements;
};
struct BarrierOver {
  std::optional<Failure> failure;
};
struct Lost {
  Role role = Role::worker;
  int rank = 0;
  std::string reason;
};
/// All workers have finished.
struct End {};
using FromScheduler = std::variant<Refused, Welcome, Located, BarrierOver, Lost, End>;

// From a worker to a server. `sequence` numbers the worker's requests to this server, from 1 on.

/// Names a piece of a value.
struct PieceName {
  Key key = 0;
  std::uint32_t index = 0;
  std::uint32_t pieces = 1;

  friend bool operator==(const PieceName&, const PieceName&) = default;
};
enum class Kind : std::uint8_t { init, broadcast, push, pushpull };
/// "init", "broadcast", ...
std::string_view name(Kind kind);

/// A worker's part in a round.
struct Contribution {
  std::uint64_t sequence = 0;
  PieceName piece{};
  Kind kind = Kind::push;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  DType dtype = DType::f32;
  Shape shape{};  ///< of the whole value
  /// The piece's elements; none where another worker's count. In the memory of whoever encodes, or
  /// in the decoded bytes.
  std::span<const std::byte> data{};
};
struct Pull {
  std::uint64_t sequence = 0;
  PieceName piece{};
  DType dtype = DType::f32;
  Shape shape{};
};
struct SetOptimizer {
  std::uint64_t sequence = 0;
  Optimizer optimizer;
};
using ToServer = std::variant<Contribution, Pull, SetOptimizer, Goodbye>;

/// From a server to a worker, once for each request.
struct Answer {
  std::uint64_t sequence = 0;
  std::optional<Failure> failure;
  std::span<const std::byte> data{};  ///< as in Contribution
};

/// Whether the worker that says this brings elements, and whether it gets any back.
inline bool brings_data(const Contribution& said, int worker) {
  if (said.kind == Kind::init) return worker == 0;
  return said.kind != Kind::broadcast || worker == said.root;
}
inline bool wants_data(const Contribution& said, int worker) {
  if (said.kind == Kind::broadcast) return worker != said.root;
  return said.kind == Kind::pushpull;
}

}  // namespace tutti::ps
