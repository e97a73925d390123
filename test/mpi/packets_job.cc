// A thousand steps of some small tensors, and what the kernel counts meanwhile on this rank's
// control connections: its TCP connections but those within the host and those of MPI, whose ports
// are given. Each rank prints a line.
//
//   packets_job STEPS FIRST_MPI_PORT LAST_MPI_PORT
#include <arpa/inet.h>
#include <fmt/format.h>
// This is not netinet/tcp.h, whose tcp_info does not count segments.
#include <linux/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace {

using tutti::KVStore;

struct Ports {
  int first = 0;
  int last = 0;
  bool have(int port) const { return first <= port && port <= last; }
};

/// The numbers that the kernel has counted on some connections. Packets that were sent again count,
/// too.
struct Packets {
  std::uint64_t connections = 0;
  std::uint64_t sent = 0;      ///< with data
  std::uint64_t received = 0;  ///< with data
  std::uint64_t all = 0;       ///< also those that only acknowledge
};

std::optional<sockaddr_in> peer_of(int descriptor) {
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  const int failed = ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size);
  if (failed != 0 || peer.sin_family != AF_INET) return std::nullopt;
  return peer;
}

int port_of(int descriptor) {
  sockaddr_in own{};
  socklen_t size = sizeof own;
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.sin_port);
}

Packets on_control_connections(const Ports& mpi) {
  Packets packets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    const auto peer = peer_of(descriptor);
    tcp_info info{};
    socklen_t size = sizeof info;
    if (!peer || ::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    const bool within_host = ntohl(peer->sin_addr.s_addr) >> 24U == 127;
    if (within_host || mpi.have(ntohs(peer->sin_port)) || mpi.have(port_of(descriptor))) continue;
    ++packets.connections;
    packets.sent += info.tcpi_data_segs_out;
    packets.received += info.tcpi_data_segs_in;
    packets.all += info.tcpi_segs_out + info.tcpi_segs_in;
  }
  return packets;
}

/// The tensors of a step, in one list call.
class Step {
 public:
  explicit Step(KVStore& store) : store_(store) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      keys_.emplace_back(static_cast<int>(i));
      lists_.emplace_back(tutti::Tensor(&values_[i], {1}, tutti::DType::f32));
    }
  }

  void take() {
    values_.fill(1);
    store_.pushpull(keys_, lists_, lists_).wait();
    for (const float value : values_) {
      wrong_ += value == static_cast<float>(store_.num_workers()) ? 0 : 1;
    }
  }
  int wrong() const { return wrong_; }

 private:
  KVStore& store_;
  std::array<float, 16> values_{};
  std::vector<tutti::Key> keys_;
  std::vector<tutti::Values> lists_;
  int wrong_ = 0;
};

int run(int steps, const Ports& mpi) {
  const auto store = KVStore::create("dist_sync_mpi");
  Step step(*store);
  for (int i = 0; i < 100; ++i) step.take();
  const std::uint64_t messages = store->counters().control_messages;
  const Packets before = on_control_connections(mpi);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step.take();
  const Packets after = on_control_connections(mpi);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const std::uint64_t told = store->counters().control_messages - messages;
  // A rank ahead says that it leaves; the others have counted by then, being a step behind at most.
  for (int i = 0; i < 3; ++i) step.take();
  fmt::print(
      "packets {{\"rank\": {}, \"nodes\": {}, \"seconds\": {:.3f}, \"messages\": {}, "
      "\"connections\": {}, \"sent\": {}, \"received\": {}, \"all\": {}}}\n",
      store->rank(), store->counters().nodes, took.count(), told, after.connections,
      after.sent - before.sent, after.received - before.received, after.all - before.all);
  std::fflush(stdout);
  return step.wrong() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return run(std::stoi(argv[1]), {std::stoi(argv[2]), std::stoi(argv[3])});
}
