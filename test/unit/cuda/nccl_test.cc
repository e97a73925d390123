#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../errors.h"
#include "cuda/memory.h"
#include "cuda/nccl_comm.h"
#include "cuda/nccl_functions.h"
#include "cuda/stream.h"
#include "machine.h"

using namespace tutti::cuda;
using namespace std::chrono_literals;

namespace {

/// The objects of each rank.
struct Rank {
  Rank(const NcclId& id, int rank, int size, int device)
      : gpu(device), comm(library, gpu, id, rank, size) {}

  const NcclLibrary library;
  const Gpu gpu;
  const ContextGuard context{gpu};
  const Stream stream{gpu};
  NcclComm comm;

  /// Memory of the device with these bytes.
  std::unique_ptr<DeviceMemory> memory(const std::vector<std::uint8_t>& bytes) const {
    auto made = std::make_unique<DeviceMemory>(gpu, bytes.size());
    stream.copy_to_device(made->data(), bytes.data(), bytes.size());
    stream.synchronize();
    return made;
  }
  std::vector<std::uint8_t> bytes_of(const DeviceMemory& memory) const {
    std::vector<std::uint8_t> bytes(memory.size());
    stream.copy_to_host(bytes.data(), memory.data(), bytes.size());
    stream.synchronize();
    return bytes;
  }
  /// The communicator's error, once it has one.
  std::string awaited_error() const {
    for (;;) {
      if (const auto error = comm.async_error()) return *error;
      std::this_thread::sleep_for(1ms);
    }
  }
};

/// For ranks that are threads, because Catch2 takes assertions of only one thread.
void must(bool holds, const std::string& what) {
  if (!holds) throw tutti::Error(tutti::ErrorCode::internal, "is not so: " + what);
}

/// Runs ranks as threads. Returns what each threw.
std::vector<std::string> run_ranks(int size, const std::function<void(Rank&)>& body) {
  const NcclId id = make_nccl_id(NcclLibrary());
  std::vector<std::string> ends(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ends[static_cast<std::size_t>(rank)] = tutti::error_of([&] {
        Rank one(id, rank, size, rank);
        body(one);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

/// A variable of the environment cannot hold the bytes themselves, zeros among them.
std::string as_text(const NcclId& id) {
  std::string text;
  for (const char byte : id) {
    text += static_cast<char>('a' + (static_cast<unsigned char>(byte) >> 4));
    text += static_cast<char>('a' + (byte & 15));
  }
  return text;
}

NcclId id_of(const std::string& text) {
  NcclId id{};
  for (std::size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<char>((text.at(2 * i) - 'a') << 4 | (text.at(2 * i + 1) - 'a'));
  }
  return id;
}

/// Runs two ranks as processes on these devices, each with a host name of its own for NCCL. Returns
/// their statuses.
std::vector<int> run_processes(const std::array<const char*, 2>& devices) {
  ::setenv("TEST_NCCL_ID", as_text(make_nccl_id(NcclLibrary())).c_str(), 1);
  std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::string test = "[nccl-rank]";
  std::vector<pid_t> processes;
  for (const char* const rank : {"0", "1"}) {
    ::setenv("TEST_NCCL_RANK", rank, 1);
    ::setenv("TEST_NCCL_DEVICE", devices.at(processes.size()), 1);
    ::setenv("NCCL_HOSTID", rank, 1);
    std::array<char*, 3> arguments{self.data(), test.data(), nullptr};
    pid_t process = 0;
    const int failed =
        ::posix_spawn(&process, self.c_str(), nullptr, nullptr, arguments.data(), environ);
    REQUIRE(failed == 0);
    processes.push_back(process);
  }
  for (const char* const name :
       {"TEST_NCCL_ID", "TEST_NCCL_RANK", "TEST_NCCL_DEVICE", "NCCL_HOSTID"}) {
    ::unsetenv(name);
  }
  std::vector<int> statuses;
  for (const pid_t process : processes) {
    int status = -1;
    ::waitpid(process, &status, 0);
    statuses.push_back(status);
  }
  return statuses;
}

void expect_well(const std::vector<std::string>& ends) {
  CHECK(ends == std::vector<std::string>(ends.size(), "no error"));
}

std::uint8_t value(int from, int to, std::size_t i) {
  return static_cast<std::uint8_t>(17 * from + 5 * to + static_cast<int>(i % 251));
}

/// Sends `bytes` to every rank and receives as many from each, then gathers. True: all was right.
bool exchange(Rank& rank, std::size_t bytes) {
  const int size = rank.comm.size();
  const auto me = rank.comm.rank();
  std::vector<std::uint8_t> out;
  for (int to = 0; to < size; ++to) {
    for (std::size_t i = 0; i < bytes; ++i) out.push_back(value(me, to, i));
  }
  const auto sent = rank.memory(out);
  const DeviceMemory received(rank.gpu, out.size());
  const DeviceMemory gathered(rank.gpu, out.size());
  const auto at = [&](const DeviceMemory& memory, int peer) {
    return static_cast<std::byte*>(memory.data()) + static_cast<std::size_t>(peer) * bytes;
  };
  rank.comm.grouped([&] {
    for (int peer = 0; peer < size; ++peer) {
      rank.comm.send(at(*sent, peer), bytes, peer, rank.stream.handle());
      rank.comm.receive(at(received, peer), bytes, peer, rank.stream.handle());
    }
  });
  rank.comm.all_gather(at(received, 0), gathered.data(), bytes, rank.stream.handle());
  const auto from_each = rank.bytes_of(received);
  const auto from_first = rank.bytes_of(gathered);
  bool right = true;
  for (int peer = 0; peer < size; ++peer) {
    for (std::size_t i = 0; i < bytes; ++i) {
      const std::size_t place = static_cast<std::size_t>(peer) * bytes + i;
      right =
          right && from_each[place] == value(peer, me, i) && from_first[place] == value(0, peer, i);
    }
  }
  return right && !rank.comm.async_error();
}

}  // namespace

TEST_CASE("ranks as threads exchange parts and gather") {
  const standin::Playing machine("devices=8");
  for (const int size : {1, 2, 3, 8}) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{200'003}}) {
      if (size == 8 && bytes > 1) continue;
      expect_well(
          run_ranks(size, [&](Rank& rank) { must(exchange(rank, bytes), "the data are right"); }));
    }
  }
}

TEST_CASE("a GPU alone exchanges with itself and gathers", "[gpu][nccl]") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{200'003}}) {
    expect_well(
        run_ranks(1, [&](Rank& rank) { must(exchange(rank, bytes), "the data are right"); }));
  }
}

TEST_CASE("a rank as a process", "[.][nccl-rank]") {
  const auto number = [](const char* variable) { return std::atoi(std::getenv(variable)); };
  Rank rank(id_of(std::getenv("TEST_NCCL_ID")), number("TEST_NCCL_RANK"), 2,
            number("TEST_NCCL_DEVICE"));
  CHECK(exchange(rank, 100'000));
}

TEST_CASE("ranks as processes exchange parts and gather") {
  ::setenv("STANDIN_GPU", "devices=2", 1);
  CHECK(run_processes({"0", "1"}) == std::vector{0, 0});
  ::unsetenv("STANDIN_GPU");
}

// NCCL may refuse it. Then this test fails, and says why.
TEST_CASE("two ranks that pass for two hosts share a GPU", "[.][gpu-shared]") {
  CHECK(run_processes({"0", "0"}) == std::vector{0, 0});
}

TEST_CASE("two ranks on one device are refused as by NCCL") {
  const standin::Playing machine("devices=1");
  const NcclId id = make_nccl_id(NcclLibrary());
  std::array<std::string, 2> ends;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ends[static_cast<std::size_t>(rank)] = tutti::error_of([&] {
        const NcclLibrary library;
        const Gpu gpu(0);
        NcclComm(library, gpu, id, rank, 2);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ends[0] ==
        "internal: gpu(0): ncclCommInitRankConfig failed: invalid usage: Duplicate GPU detected : "
        "rank 0 and rank 1");
}

TEST_CASE("launches in another order are named on every rank, and an abort ends them") {
  const standin::Playing machine("devices=2");
  expect_well(run_ranks(2, [](Rank& rank) {
    const auto memory = rank.memory(std::vector<std::uint8_t>(100));
    const int peer = 1 - rank.comm.rank();
    const auto gather = [&] {
      rank.comm.all_gather(memory->data(), memory->data(), 50, rank.stream.handle());
    };
    const auto swap = [&] {
      rank.comm.grouped([&] {
        rank.comm.send(memory->data(), 20, peer, rank.stream.handle());
        rank.comm.receive(memory->data(), 20, peer, rank.stream.handle());
      });
    };
    gather();
    if (rank.comm.rank() == 0) {
      gather();
      swap();
    } else {
      swap();
      gather();
    }
    const std::string said = rank.awaited_error();
    must(said.find("NCCL's work failed: invalid usage: launches in another order: rank ") == 0,
         said);
    must(said.find("in its launch 2, but gets ") != std::string::npos, said);
    must(rank.comm.abort(5s), "the abort ends");
    rank.stream.synchronize();
  }));
}

TEST_CASE("launches of other sizes are named on every rank") {
  const standin::Playing machine("devices=2");
  expect_well(run_ranks(2, [](Rank& rank) {
    const auto memory = rank.memory(std::vector<std::uint8_t>(100));
    const int peer = 1 - rank.comm.rank();
    for (const std::size_t bytes : {rank.comm.rank() == 0 ? 20U : 30U, 40U}) {
      rank.comm.grouped([&] {
        rank.comm.send(memory->data(), bytes, peer, rank.stream.handle());
        rank.comm.receive(memory->data(), bytes, peer, rank.stream.handle());
      });
    }
    const std::string said = rank.awaited_error();
    const std::string first =
        "rank 0 awaits 20 bytes of a send from rank 1 in its launch 1, but gets 30 bytes of a send "
        "of launch 1";
    const std::string second =
        "rank 1 awaits 30 bytes of a send from rank 0 in its launch 1, but gets 20 bytes of a send "
        "of launch 1";
    must(said.ends_with(first) || said.ends_with(second), said);
    must(rank.comm.abort(5s), "the abort ends");
    rank.stream.synchronize();
  }));
}

TEST_CASE(
    "a rank that stays away from a launch is named, if the stand-in is told to lose patience") {
  const standin::Playing machine("devices=3");
  ::setenv("STANDIN_NCCL_PATIENCE", "0.05", 1);
  expect_well(run_ranks(3, [](Rank& rank) {
    const auto memory = rank.memory(std::vector<std::uint8_t>(3));
    if (rank.comm.rank() != 1) {
      rank.comm.all_gather(memory->data(), memory->data(), 1, rank.stream.handle());
    }
    const std::string said = rank.awaited_error();
    must(said.ends_with(" waits in its launch 1 for rank 1, which has come to launch 0"), said);
    must(rank.comm.abort(5s), "the abort ends");
    rank.stream.synchronize();
  }));
  ::unsetenv("STANDIN_NCCL_PATIENCE");
}

TEST_CASE("an abort ends work that waits for a lost rank") {
  const standin::Playing machine("devices=2");
  expect_well(run_ranks(2, [](Rank& rank) {
    const auto memory = rank.memory(std::vector<std::uint8_t>(100));
    if (rank.comm.rank() == 1) return;
    const Event end(rank.gpu);
    rank.comm.receive(memory->data(), 100, 1, rank.stream.handle());
    end.record(rank.stream.handle());
    must(!rank.comm.async_error(), "NCCL knows nothing");
    must(!end.is_done(), "the work hangs");
    must(rank.comm.abort(5s), "the abort ends");
    end.wait();
  }));
}

TEST_CASE("a remote error is told while its work hangs") {
  const standin::Playing machine("devices=1");
  auto* const fail = standin::function<void(const char*)>("libnccl.so.2", "standin_nccl_faults");
  fail("ncclAllGather#1=late:6");
  expect_well(run_ranks(1, [](Rank& rank) {
    const auto memory = rank.memory({1});
    rank.comm.all_gather(memory->data(), memory->data(), 1, rank.stream.handle());
    CHECK(rank.awaited_error() ==
          "NCCL's work failed: remote process exited or there was a network error");
    CHECK(rank.comm.abort(5s));
  }));
  fail("");
}

TEST_CASE("an abort that hangs is left behind at its limit") {
  const standin::Playing machine("devices=1");
  auto* const fail = standin::function<void(const char*)>("libnccl.so.2", "standin_nccl_faults");
  fail("ncclCommAbort#1=hang");
  expect_well(run_ranks(1, [](Rank& rank) {
    CHECK_FALSE(rank.comm.abort(20ms));
    CHECK(rank.comm.abort(20ms));  // nothing is left to end
  }));
  fail("");
}

TEST_CASE("a call of NCCL that fails is an error with its name, and closes its group") {
  const standin::Playing machine("devices=1");
  auto* const fail = standin::function<void(const char*)>("libnccl.so.2", "standin_nccl_faults");
  fail("ncclSend#1=5");
  expect_well(run_ranks(1, [](Rank& rank) {
    const auto memory = rank.memory({1, 2});
    const auto send = [&] {
      rank.comm.grouped([&] { rank.comm.send(memory->data(), 1, 0, rank.stream.handle()); });
    };
    CHECK(tutti::error_of(send) ==
          "internal: gpu(0): ncclSend failed: invalid usage: ncclSend: planned");
    CHECK(exchange(rank, 100));
  }));
  fail("");
}

TEST_CASE("NCCL is found on the loader's path, and a path that is given must hold it") {
  const NcclLibrary found;
  CHECK(found.version() == NCCL_VERSION_CODE);
  CHECK(found.version_text() == "2.28.9");
  CHECK(found.path().filename() == "libnccl.so.2");
  CHECK(NcclLibrary(found.path()).path() == found.path());
  const std::string said =
      tutti::text_of(tutti::ErrorCode::unsupported, [] { NcclLibrary("/nowhere/libnccl.so.2"); });
  CHECK(said.find("cannot load NCCL: /nowhere/libnccl.so.2: ") == 0);
}

TEST_CASE("an NCCL that is too old is refused, and an older one gets a config of its size") {
  ::setenv("STANDIN_NCCL_VERSION", "21305", 1);
  const std::string said = tutti::text_of(tutti::ErrorCode::unsupported, [] { NcclLibrary(); });
  CHECK(said.find("NCCL 2.13.5 in ") == 0);
  CHECK(said.find(" is too old: tutti needs 2.14.0") != std::string::npos);

  ::setenv("STANDIN_NCCL_VERSION", "21803", 1);
  expect_well(run_ranks(1, [](Rank& rank) { CHECK(exchange(rank, 10)); }));
  ::unsetenv("STANDIN_NCCL_VERSION");

  CHECK(config_for(21403).size == offsetof(ncclConfig_t, cgaClusterSize));
  CHECK(config_for(21701).size == offsetof(ncclConfig_t, splitShare));
  CHECK(config_for(21803).version == 21803);
  CHECK(config_for(22809).size == sizeof(ncclConfig_t));
  CHECK(config_for(23203).version == NCCL_VERSION_CODE);
}
