#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shm/launch_log.h"

namespace tutti::shm::test {

/// A rule of the launch log that was broken.
struct Violation {
  std::string what;
};

/// A world to be tried in every order of its steps.
struct Setup {
  std::vector<int> ranks = {2};  ///< by node
  int chunks = 1;
  int slots = 1;
  /// By node: the chunks that it sums in the host's memory, without NCCL. Empty if there are none.
  std::vector<std::vector<bool>> by_host{};
  /// By chunk: for each lane, whether it has no elements of the chunk. If it is empty, all lanes
  /// have some.
  std::vector<std::vector<bool>> empty{};
  /// By local index and chunk: the chunk for whose result the rank's input waits, in a stream of
  /// the program. The chunk itself means none. If it is empty, no input waits.
  std::vector<std::vector<int>> behind{};
  /// NCCL's sends may end before, or only when, their receiver has come.
  bool sends_wait = false;
  std::size_t words = LaunchLog::words(1);  ///< of a ring

  /// How the world breaks the rules.
  enum class Fault : std::uint8_t {
    none,
    own_order,     ///< the ranks behind the first one make launches in an order of their own
    first_alone,   ///< the first rank appends when it alone is ready
    early_gather,  ///< a gather does not wait for the end of an exchange
    no_slots,      ///< a scatter does not wait for a slot
  };
  Fault fault = Fault::none;
};

/// Something that a rank may do next.
struct Step {
  int node = 0;
  int local = 0;
  /// If there is none, the rank copies its input to the next chunk into the host's staging memory.
  std::optional<LaunchLog::Launch> launch;

  std::string text() const;
};

/// Nodes whose ranks move chunks of one allreduce after the other, with the launch log of each
/// node. A rank's inputs become complete, and it looks around, at any moment: so each step that is
/// possible may be the next one. All else happens at once when it can, which hides no order: it
/// delays nobody.
///
/// Work of NCCL is in the order of launches on each rank's stream. A launch is over on a rank when
/// every rank that sends to it has come to the same launch, and with `sends_wait` every rank that
/// it sends to.
class World {
 public:
  explicit World(Setup setup);
  World(const World& other);
  World& operator=(const World&) = delete;
  World(World&&) = default;
  ~World() = default;

  /// Throws `Violation`.
  std::vector<Step> steps() const;
  /// Throws `Violation`, and `Error` when the log finds something wrong.
  void take(const Step& step);
  /// Throws `Violation` unless all chunks are done; nothing is possible any more.
  void check_end() const;
  /// Worlds with equal marks go on alike.
  std::string mark() const;
  /// The most launches that a rank had appended and another one had not made.
  std::size_t most_open() const { return most_open_; }

 private:
  using Launch = LaunchLog::Launch;
  using Kind = LaunchLog::Kind;
  struct Rank {
    std::vector<Launch> launches;
    std::size_t over = 0;  ///< how many of them
    int copied_in = 0, reduced = 0, copied_out = 0;
    std::vector<LaunchLog> log;  ///< one
  };
  struct Node {
    std::vector<LaunchLog::Word> ring;
    std::vector<Rank> ranks;
  };

  void note_in_log(Rank& rank, Launch launch) const;
  int lanes() const;
  bool is_by_host(int node, int chunk) const;
  bool is_empty(int chunk, int local) const;
  int least(const Node& node, int Rank::*flag) const;
  bool is_slot_free(const Node& node, int Rank::*flag, int chunk) const;
  bool has_launched(const Rank& rank, Launch launch) const;
  bool is_over(const Rank& rank, Launch launch) const;
  /// Whether the rank's slice of the chunk is summed in its node, and over all nodes.
  bool is_summed(int node, int local, int chunk) const;
  bool is_exchanged(int node, int local, int chunk) const;
  bool has_input(int node, int local, int chunk) const;
  bool is_ready(int node, int local, Launch launch) const;
  bool may_append(int node, Launch launch) const;
  bool ends_launch(int node, int local) const;
  bool raise_flags(int node, int local);
  void settle();
  void add_launches(int node, int local, std::vector<Step>& steps) const;
  void compare_orders(const Node& node, const Rank& rank) const;

  Setup setup_;
  std::vector<Node> nodes_;
  std::size_t most_open_ = 0;
};

}  // namespace tutti::shm::test
