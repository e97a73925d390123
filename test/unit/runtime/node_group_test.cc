// Ranks as threads of one process, each with a device of the stand-in.
#include "runtime/node_group.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../base/logged.h"
#include "../cuda/machine.h"
#include "../errors.h"
#include "base/mutex.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

using namespace tutti;
using namespace std::chrono_literals;
using runtime::NodeGroup;
using shm::GroupBoard;

namespace {

constexpr std::size_t slots = 8;
constexpr auto soon = 20ms;

void fail_nccl(const char* words) {
  standin::function<void(const char*)>("libnccl.so.2", "standin_nccl_faults")(words);
}

/// Plays calls of NCCL that fail, until it is destroyed.
struct NcclFaults {
  explicit NcclFaults(const char* words) { fail_nccl(words); }
  ~NcclFaults() { fail_nccl(""); }
  int calls(const char* function) const {
    return standin::function<int(const char*)>("libnccl.so.2", "standin_nccl_calls")(function);
  }
  NcclFaults(const NcclFaults&) = delete;
  NcclFaults& operator=(const NcclFaults&) = delete;
};

/// A node whose ranks pass one gate after the other. The test plays all of them.
class Node {
 public:
  using Change = std::function<void(NodeGroup::Settings&, int local)>;

  explicit Node(int size, const Change& change = {}) {
    const std::size_t bytes = GroupBoard::bytes(size, slots);
    memory_ = std::shared_ptr<void>(std::aligned_alloc(4096, bytes), std::free);
    std::memset(memory_.get(), 0, bytes);
    for (int local = 0; local < size; ++local) {
      NodeGroup::Settings settings{
          .board = board(size, local),
          .memory = memory_,
          .gpu = std::make_shared<const cuda::Gpu>(local),
          .ranks = {},
          .limit = 1h,
      };
      for (int rank = 0; rank < size; ++rank) settings.ranks.push_back(4 + rank);
      if (change) change(settings, local);
      ranks_.push_back(std::make_unique<NodeGroup>(std::move(settings)));
    }
  }

  GroupBoard board(int size, int local) const {
    return {{static_cast<std::byte*>(memory_.get()), GroupBoard::bytes(size, slots)},
            size,
            local,
            slots};
  }
  NodeGroup& operator[](int local) const { return *ranks_[static_cast<std::size_t>(local)]; }
  int size() const { return static_cast<int>(ranks_.size()); }

  /// Lets all ranks pass the next gate. Returns their choice, which is the same on all.
  bool pass(base::Clock::time_point now = base::Clock::now()) {
    for (const auto& rank : ranks_) rank->enter(sequence_);
    std::vector<bool> chosen;
    for (const auto& rank : ranks_) chosen.push_back(rank->look(sequence_, now));
    ++sequence_;
    if (std::ranges::count(chosen, chosen.front()) != size()) FAIL("the ranks differ");
    return chosen.front();
  }
  /// Gates pass until that is so.
  template <typename Predicate>
  void pass_until(const Predicate& enough) {
    while (!enough()) {
      pass();
      std::this_thread::yield();
    }
  }
  /// All ranks close, side by side. Returns whether NCCL ended on each.
  std::vector<bool> close(std::chrono::milliseconds limit) {
    std::vector<char> ended(ranks_.size());
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      threads.emplace_back([&, r] { ended[r] = ranks_[r]->close(limit); });
    }
    for (std::thread& thread : threads) thread.join();
    return {ended.begin(), ended.end()};
  }

 private:
  std::shared_ptr<void> memory_;
  std::vector<std::unique_ptr<NodeGroup>> ranks_;
  std::uint64_t sequence_ = 0;
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// Whether the first rank has said that NCCL is not used.
bool has_warned(const Logged& logged) {
  return count(logged.text(), "do not use NCCL") > 0;
}

/// Loads NCCL in the version that this rank is to have.
struct Versions {
  cuda::NcclLibrary load(const char* version) {
    const base::Lock lock(mutex);
    ::setenv("STANDIN_NCCL_VERSION", version, 1);
    cuda::NcclLibrary library;
    ::unsetenv("STANDIN_NCCL_VERSION");
    return library;
  }
  base::Mutex mutex{8};
};

/// Whether this rank's communicator moves a byte to the next rank.
bool moves_bytes(cuda::NcclComm& comm, const cuda::Gpu& gpu) {
  const cuda::ContextGuard context(gpu);
  const cuda::Stream stream(gpu);
  const cuda::DeviceMemory memory(gpu, 2);
  auto* const bytes = static_cast<std::byte*>(memory.data());
  const std::byte mine{static_cast<unsigned char>(comm.rank())};
  stream.copy_to_device(bytes, &mine, 1);
  comm.grouped([&] {
    comm.send(bytes, 1, (comm.rank() + 1) % comm.size(), stream.handle());
    comm.receive(bytes + 1, 1, (comm.rank() + comm.size() - 1) % comm.size(), stream.handle());
  });
  std::byte got{};
  stream.copy_to_host(&got, bytes + 1, 1);
  stream.synchronize();
  return static_cast<int>(got) == (comm.rank() + comm.size() - 1) % comm.size();
}

}  // namespace

TEST_CASE("ranks with a GPU each get a communicator, all from the same batch on") {
  const standin::Playing machine("devices=3");
  const Logged logged;
  Node node(3);
  CHECK_FALSE(node.pass());
  node.pass_until([&] { return node.pass(); });
  CHECK(node.pass());
  std::vector<char> right(3);
  std::vector<std::thread> threads;
  threads.reserve(right.size());
  for (int local = 0; local < 3; ++local) {
    threads.emplace_back([&, local] {
      const cuda::Gpu gpu(local);
      right[static_cast<std::size_t>(local)] = moves_bytes(node[local].comm(), gpu);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<char>{1, 1, 1});
  CHECK(node.close(5s) == std::vector{true, true, true});
  CHECK(logged.text().find("warn") == std::string::npos);
}

TEST_CASE("a batch counts what ranks had before its gate, though one is a gate further") {
  const standin::Playing machine("devices=2");
  Node node(2);
  node[0].enter(0);
  CHECK_FALSE(node[0].is_able(0));  // the gate has not closed
  node[0].enter(0);
  node[1].enter(1);
  CHECK_FALSE(node[0].is_able(0));
  CHECK(node[0].is_able(1));
  CHECK(node[1].is_able(1));
  // A gate that was withdrawn and entered again changes nothing.
  node[1].enter(1);
  CHECK(node[0].is_able(1));
  CHECK_FALSE(node[0].is_ready(1));
}

TEST_CASE("ranks that share a GPU load nothing and say nothing") {
  const standin::Playing machine("devices=2");
  const Logged logged;
  int loads = 0;
  Node node(2, [&](NodeGroup::Settings& settings, int) {
    settings.gpu = std::make_shared<const cuda::Gpu>(0);
    settings.load = [&] {
      ++loads;
      return cuda::NcclLibrary();
    };
  });
  for (int batch = 0; batch < 5; ++batch) CHECK_FALSE(node.pass());
  CHECK(node.close(5s) == std::vector{true, true});
  CHECK(loads == 0);
  CHECK(logged.text().empty());
}

TEST_CASE("ranks with one GPU that pass for two hosts are two places for NCCL") {
  const standin::Playing machine("devices=2");
  Node node(2, [&](NodeGroup::Settings& settings, int local) {
    settings.gpu = std::make_shared<const cuda::Gpu>(0);
    ::setenv("NCCL_HOSTID", std::to_string(local).c_str(), 1);
    settings.load = []() -> cuda::NcclLibrary { throw Error(ErrorCode::internal, "loaded"); };
  });
  ::unsetenv("NCCL_HOSTID");
  const Logged logged;
  node.pass_until([&] { return has_warned(logged); });
  CHECK(logged.text().find(": loaded; ") != std::string::npos);
}

TEST_CASE("ranks with different versions of NCCL say so once, and go on without") {
  const standin::Playing machine("devices=3");
  const Logged logged;
  Versions versions;
  Node node(3, [&](NodeGroup::Settings& settings, int local) {
    settings.load = [&versions, local] { return versions.load(local == 1 ? "22703" : "22809"); };
  });
  node.pass_until([&] { return has_warned(logged); });
  CHECK_FALSE(node.pass());
  CHECK(node.close(5s) == std::vector{true, true, true});
  const std::string said = logged.text();
  INFO(said);
  CHECK(count(said, "warn") == 1);
  CHECK(said.find(
            "ranks 4-6, which share a node, do not use NCCL: rank 4: it has NCCL 2.28.9 from ") !=
        std::string::npos);
  CHECK(said.find(", but rank 5 has another version; let all load the same; their tensors on GPUs "
                  "move through the host's memory") != std::string::npos);
}

TEST_CASE("ranks without NCCL say why, together") {
  const standin::Playing machine("devices=2");
  const Logged logged;
  Node node(2, [&](NodeGroup::Settings& settings, int) {
    settings.load = [] { return cuda::NcclLibrary("/nowhere/libnccl.so.2"); };
  });
  node.pass_until([&] { return node.board(2, 0).failures().size() == 2 && has_warned(logged); });
  CHECK_FALSE(node.pass());
  CHECK(node.close(5s) == std::vector{true, true});
  INFO(logged.text());
  CHECK(count(logged.text(), "warn") == 1);
  CHECK(logged.text().find("cannot load NCCL: /nowhere/libnccl.so.2: ") != std::string::npos);
}

TEST_CASE("one rank without NCCL keeps the node from it") {
  const standin::Playing machine("devices=2");
  const Logged logged;
  Node node(2, [&](NodeGroup::Settings& settings, int local) {
    if (local == 1) settings.load = [] { return cuda::NcclLibrary("/nowhere/libnccl.so.2"); };
  });
  node.pass_until([&] { return has_warned(logged); });
  CHECK(node.close(5s) == std::vector{true, true});
  CHECK(
      logged.text().find("ranks 4-5, which share a node, do not use NCCL: rank 5: cannot load ") !=
      std::string::npos);
}

TEST_CASE("a communicator that one rank cannot make is made by none, and close leaves the others") {
  const standin::Playing machine("devices=2");
  // The first one to call it waits for the other in NCCL, for ever.
  const NcclFaults faults("ncclCommInitRankConfig#2=5");
  const Logged logged;
  Node node(2);
  node.pass_until([&] { return has_warned(logged); });
  CHECK_FALSE(node.pass());
  const std::vector<bool> ended = node.close(soon);
  CHECK(std::count(ended.begin(), ended.end(), true) == 1);
  INFO(logged.text());
  CHECK(count(logged.text(), "warn") == 1);
  CHECK(logged.text().find("ncclCommInitRankConfig failed: invalid usage") != std::string::npos);
}

TEST_CASE("NCCL that hangs is given up after the time limit, and close does not wait for it") {
  const standin::Playing machine("devices=2");
  const NcclFaults faults("ncclCommInitRankConfig#0=hang");
  const Logged logged;
  Node node(2);
  CHECK_FALSE(node.pass());
  node.pass_until([&] { return faults.calls("ncclCommInitRankConfig") == 2; });
  CHECK(logged.text().empty());
  CHECK_FALSE(node.pass(base::Clock::now() + 1h + 1s));
  CHECK_FALSE(node.pass());
  CHECK(node.close(soon) == std::vector{false, false});
  INFO(logged.text());
  CHECK(count(logged.text(), "warn") == 1);
  CHECK(logged.text().find("ranks 4-5, which share a node, do not use NCCL: rank 4: it was still "
                           "making its communicator after 3600 s (create_timeout, "
                           "TUTTI_CREATE_SECONDS)") != std::string::npos);
}

TEST_CASE("peers that do not answer are a failure, too, and its work is aborted") {
  const standin::Playing machine("devices=2");
  const NcclFaults faults("ncclSend#1=late:6");
  const Logged logged;
  Node node(2);
  node.pass_until([&] { return has_warned(logged); });
  CHECK(node.close(5s) == std::vector{true, true});
  INFO(logged.text());
  CHECK(logged.text().find(": NCCL's work failed: remote process exited or there was a network "
                           "error; ") != std::string::npos);
}

TEST_CASE("the companion of a communicator is made with it and destroyed before it") {
  const standin::Playing machine("devices=2");
  const NcclFaults none("");
  std::vector<int> ended_before_destroyed;
  base::Mutex mutex{8};
  Node node(2, [&](NodeGroup::Settings& settings, int) {
    settings.equip = [&](cuda::NcclComm& comm) {
      const auto end = [&](int* rank) {
        const base::Lock lock(mutex);
        if (none.calls("ncclCommDestroy") == 0) ended_before_destroyed.push_back(*rank);
        delete rank;
      };
      return std::shared_ptr<int>(new int(comm.rank()), end);
    };
  });
  node.pass_until([&] { return node.pass(); });
  CHECK(*static_cast<int*>(node[1].equipment()) == 1);
  CHECK(ended_before_destroyed.empty());
  CHECK(node[1].close(5s));
  CHECK(ended_before_destroyed == std::vector{1});
  CHECK(none.calls("ncclCommDestroy") == 1);
  CHECK(node[0].close(5s));
}

TEST_CASE("close leaves a communicator behind that hangs in its end") {
  const standin::Playing machine("devices=2");
  const NcclFaults faults("ncclCommDestroy#2=hang");
  Node node(2);
  node.pass_until([&] { return node.pass(); });
  CHECK(node[0].close(5s));
  CHECK_FALSE(node[1].close(soon));
  CHECK(node[1].close(5s));  // nothing is left to end
}

TEST_CASE("a rank without room for what goes with a communicator keeps the node from NCCL") {
  const standin::Playing machine("devices=2");
  const Logged logged;
  Node node(2, [&](NodeGroup::Settings& settings, int local) {
    settings.equip = [local](cuda::NcclComm&) -> std::shared_ptr<void> {
      if (local == 1) throw Error(ErrorCode::internal, "no room for scratch");
      return nullptr;
    };
  });
  node.pass_until([&] { return has_warned(logged); });
  for (int batch = 0; batch < 5; ++batch) CHECK_FALSE(node.pass());
  CHECK(logged.text().find("do not use NCCL: rank 5: no room for scratch; ") != std::string::npos);
  CHECK(node.close(5s) == std::vector{true, true});
}

TEST_CASE("a store that closes while its communicator is made waits for nothing") {
  const standin::Playing machine("devices=2");
  Node node(2, [&](NodeGroup::Settings& settings, int local) {
    if (local == 0) return;
    settings.load = []() -> cuda::NcclLibrary {
      for (;;) std::this_thread::sleep_for(1h);
    };
  });
  CHECK_FALSE(node.pass());
  CHECK(node[0].close(5s));
  CHECK_FALSE(node[1].close(soon));
}

TEST_CASE("a rank whose process has a communicator already keeps the node from another one") {
  const standin::Playing machine("devices=2");
  const Logged logged;
  Node node(2, [](NodeGroup::Settings& settings, int local) {
    if (local == 1) settings.claim = [] { return false; };
  });
  node.pass_until([&] {
    CHECK_FALSE(node.pass());
    return has_warned(logged);
  });
  CHECK(logged.text().find("rank 5: another store of this process") != std::string::npos);
  CHECK(node.close(5s) == std::vector{true, true});
}

TEST_CASE("an abort ends work of the communicator that hangs, and the store closes") {
  const standin::Playing machine("devices=2");
  Node node(2);
  node.pass_until([&] { return node.pass(); });
  const cuda::Gpu gpu(0);
  const cuda::ContextGuard context(gpu);
  const cuda::Stream stream(gpu);
  const cuda::DeviceMemory memory(gpu, 1);
  node[0].comm().receive(memory.data(), 1, 1, stream.handle());
  CHECK(node[0].abort(5s));
  stream.synchronize();
  CHECK(node.close(5s) == std::vector{true, true});
}
