#include "runtime/node_group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "base/wait_limits.h"
#include "coordinator/text.h"
#include "cuda/event.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

using namespace std::chrono_literals;
using shm::GroupBoard;

/// The time for which the end of a store waits for NCCL.
constexpr auto usual_end = 2s;
/// The time for which a failed attempt waits until NCCL drops its work.
constexpr auto longest_abort = 1s;
constexpr auto never = base::Clock::time_point::max();

/// The GPU and the host, as NCCL names it: by its host name, or by a variable. NCCL refuses a
/// communicator in which two ranks use the same GPU of the same host.
std::string place_of(const cuda::Gpu& gpu) {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const char* const given = std::getenv("NCCL_HOSTID");
  return fmt::format("{} of {}", gpu.name().uuid, given != nullptr ? given : name.data());
}

/// Thrown if another rank has failed, or if nobody needs the communicator any more.
struct GroupStopped {};

/// Bytes that the ranks send each other before anybody uses the communicator. NCCL makes its
/// connections meanwhile.
struct Greeting {
  static constexpr std::size_t bytes = 256;  ///< for each peer

  Greeting(const cuda::Gpu& gpu, int size)
      : zeros(static_cast<std::size_t>(size) * bytes),
        sent(gpu, zeros.size()),
        received(gpu, zeros.size()),
        stream(gpu),
        end(gpu) {}

  std::vector<std::byte> zeros;
  cuda::DeviceMemory sent;
  cuda::DeviceMemory received;
  cuda::Stream stream;
  cuda::Event end;

  void send(cuda::NcclComm& comm) const {
    const auto at = [](const cuda::DeviceMemory& memory, int peer) {
      return static_cast<std::byte*>(memory.data()) + static_cast<std::size_t>(peer) * bytes;
    };
    stream.copy_to_device(sent.data(), zeros.data(), zeros.size());
    comm.grouped([&] {
      for (int peer = 0; peer < comm.size(); ++peer) {
        if (peer == comm.rank()) continue;
        comm.send(at(sent, peer), bytes, peer, stream.handle());
        comm.receive(at(received, peer), bytes, peer, stream.handle());
      }
    });
    end.record(stream.handle());
  }
};

}  // namespace

/// Two threads use the members that are not atomic. They belong to the helper thread from its start
/// until the state is no longer `making`, and again from the moment when it is told to stop. In
/// between they belong to the executor.
struct NodeGroup::Job {
  enum class State : std::uint8_t { making, made, failed };

  explicit Job(Settings given) : settings(std::move(given)) {}

  void run();
  void make();
  void check_versions(const cuda::NcclLibrary& library) const;
  void greet_peers();
  void fail(const std::string& cause);
  void tell_to_stop();
  void release();
  bool is_done_by(base::Clock::time_point end) TUTTI_EXCLUDES(mutex);
  template <typename Predicate>
  void wait_for(const Predicate& holds) const;
  void check_stop() const;
  int rank_of(int local) const { return settings.ranks[static_cast<std::size_t>(local)]; }
  base::Doorbell& bell() const { return settings.board.bell(); }

  const Settings settings;
  base::Clock::time_point deadline = never;
  std::atomic<State> state{State::making};
  std::atomic<const char*> doing{"starting"};
  std::atomic<bool> stop{false};
  /// Whether it aborts at the end; otherwise it waits for the communicator's work.
  std::atomic<bool> aborts{false};
  std::atomic<std::size_t> device_bytes{0};
  std::optional<cuda::NcclComm> comm{};
  std::shared_ptr<void> equipment{};
  std::optional<Greeting> greeting{};
  base::Mutex mutex{5};
  base::CondVar changed;
  bool done TUTTI_GUARDED_BY(mutex) = false;
};

void NodeGroup::Job::run() {
  try {
    make();
    State now = State::making;
    if (!state.compare_exchange_strong(now, State::made)) aborts = true;
  } catch (const GroupStopped&) {
    aborts = true;
  } catch (const std::exception& error) {
    aborts = true;
    fail(error.what());
  }
  while (!stop) {
    const std::uint32_t seen = bell().ticket();
    if (!stop) bell().wait(seen, never);
  }
  release();
  const base::Lock lock(mutex);
  done = true;
  changed.notify_all();
}

void NodeGroup::Job::make() {
  const GroupBoard& board = settings.board;
  const auto start = base::Clock::now();
  cuda::set_current(*settings.gpu);
  cuda::relax_capture_mode();
  doing = "loading NCCL";
  const cuda::NcclLibrary library = settings.load();
  board.set_version(library.version());
  doing = "waiting for the other ranks' NCCL";
  wait_for([&] { return std::ranges::count(board.versions(), 0) == 0; });
  if (board.is_first()) {
    check_versions(library);
    board.set_id(cuda::make_nccl_id(library));
  }
  wait_for([&] { return board.has_id(); });
  const std::size_t free_before = settings.gpu->free_bytes();
  doing = "making its communicator";
  comm.emplace(library, *settings.gpu, board.id(), board.local_index(), board.local_size());
  doing = "connecting to the other ranks";
  greet_peers();
  doing = "making what goes with its communicator";
  equipment = settings.equip(*comm);
  const std::size_t free_after = settings.gpu->free_bytes();
  device_bytes = free_before - std::min(free_before, free_after);
  check_stop();
  base::log().info(
      "gpu({}): NCCL {} of {} connects {}, which share a node; that took {:.1f} s and "
      "about {} MiB of the GPU's memory",
      settings.gpu->ordinal(), library.version_text(), library.path().string(),
      coordinator::rank_list(settings.ranks),
      std::chrono::duration<double>(base::Clock::now() - start).count(), device_bytes >> 20);
}

void NodeGroup::Job::check_versions(const cuda::NcclLibrary& library) const {
  const std::vector<int> versions = settings.board.versions();
  std::vector<int> others;
  for (int local = 0; local < settings.board.local_size(); ++local) {
    if (versions[static_cast<std::size_t>(local)] != library.version()) {
      others.push_back(rank_of(local));
    }
  }
  if (others.empty()) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("it has NCCL {} from {}, but {} another version; let all load the same",
                          library.version_text(), library.path().string(),
                          coordinator::rank_list(others) + (others.size() > 1 ? " have" : " has")));
}

void NodeGroup::Job::greet_peers() {
  greeting.emplace(*settings.gpu, comm->size());
  greeting->send(*comm);
  while (!greeting->end.is_done()) {
    if (const auto error = comm->async_error()) throw Error(ErrorCode::internal, *error);
    check_stop();
    const auto now = base::Clock::now();
    if (now > deadline)
      throw Error(ErrorCode::timeout,
                  "the other ranks have not answered within " + base::create_limit(settings.limit));
    bell().wait(bell().ticket(), now + 1ms);
  }
  greeting.reset();
}

void NodeGroup::Job::check_stop() const {
  if (stop || !settings.board.failures().empty()) throw GroupStopped{};
}

template <typename Predicate>
void NodeGroup::Job::wait_for(const Predicate& holds) const {
  for (;;) {
    const std::uint32_t seen = bell().ticket();
    check_stop();
    if (holds()) return;
    // The executor looks at the deadline, too. Its error says for what the thread waited.
    bell().wait(seen, never);
  }
}

/// Any thread of this rank may call this. Only the first failure counts. Once the communicator is
/// there, none counts.
void NodeGroup::Job::fail(const std::string& cause) {
  State now = State::making;
  if (state.compare_exchange_strong(now, State::failed)) settings.board.fail(cause);
}

void NodeGroup::Job::tell_to_stop() {
  stop = true;
  bell().ring();
}

void NodeGroup::Job::release() {
  equipment.reset();
  try {
    if (comm && aborts) comm->abort(longest_abort);
  } catch (const std::exception& error) {
    base::log().debug("NCCL's communicator is left as it is: {}", error.what());
  }
  comm.reset();
  greeting.reset();
}

bool NodeGroup::Job::is_done_by(base::Clock::time_point end) {
  base::Lock lock(mutex);
  while (!done) {
    if (!changed.wait_until(lock, end)) return done;
  }
  return true;
}

NodeGroup::NodeGroup(Settings settings) : job_(std::make_shared<Job>(std::move(settings))) {
  job_->settings.board.set_place(place_of(*job_->settings.gpu));
}

NodeGroup::~NodeGroup() {
  close(usual_end);
}

void NodeGroup::enter(std::uint64_t sequence) {
  const GroupBoard& board = job_->settings.board;
  board.set(&GroupBoard::Member::able, sequence);
  if (job_->state == Job::State::made) board.set(&GroupBoard::Member::ready, sequence);
}

bool NodeGroup::is_able(std::uint64_t sequence) const {
  return job_->settings.board.holds(&GroupBoard::Member::able, sequence);
}

bool NodeGroup::is_ready(std::uint64_t sequence) const {
  return job_->settings.board.holds(&GroupBoard::Member::ready, sequence);
}

bool NodeGroup::look(std::uint64_t sequence, base::Clock::time_point now) {
  if (is_ready(sequence)) return true;
  if (over_) return false;
  if (!started_) {
    if (is_able(sequence)) start(now);
    return false;
  }
  if (now > job_->deadline) {
    job_->fail(fmt::format("it was still {} after {}", job_->doing.load(),
                           base::create_limit(job_->settings.limit)));
  }
  if (!job_->settings.board.failures().empty()) give_up();
  return false;
}

void NodeGroup::start(base::Clock::time_point now) {
  if (!job_->settings.board.are_places_distinct()) {
    over_ = true;
    base::log().debug("gpu({}): ranks of this node share a GPU, so they do not use NCCL",
                      job_->settings.gpu->ordinal());
    return;
  }
  started_ = true;
  job_->deadline = now + job_->settings.limit;
  if (!job_->settings.claim()) {
    job_->fail("another store of this process uses it, and a process has one communicator at most");
    return;
  }
  try {
    helper_ = base::NamedThread("tutti-nccl", [job = job_] { job->run(); });
  } catch (const std::exception& error) {
    job_->fail(error.what());
  }
}

void NodeGroup::give_up() {
  over_ = true;
  std::map<std::string, std::vector<int>> failed;
  for (const GroupBoard::Failure& failure : job_->settings.board.failures()) {
    failed[failure.cause].push_back(job_->rank_of(failure.local));
  }
  std::string causes;
  for (const auto& [cause, ranks] : failed) {
    causes += fmt::format("{}: {}; ", coordinator::rank_list(ranks), cause);
  }
  const auto level = job_->settings.board.is_first() ? spdlog::level::warn : spdlog::level::info;
  base::log().log(level,
                  "{}, which share a node, do not use NCCL: {}their tensors on GPUs move "
                  "through the host's memory",
                  coordinator::rank_list(job_->settings.ranks), causes);
  job_->aborts = true;
  job_->tell_to_stop();
  gave_up_ = base::Clock::now();
}

cuda::NcclComm& NodeGroup::comm() const {
  return *job_->comm;
}

void* NodeGroup::equipment() const {
  return job_->equipment.get();
}

std::size_t NodeGroup::device_bytes() const {
  return job_->device_bytes;
}

bool NodeGroup::abort(std::chrono::milliseconds limit) {
  job_->aborts = true;
  if (over_ || job_->state != Job::State::made) return true;
  return job_->comm->abort(limit);
}

bool NodeGroup::close(std::chrono::milliseconds limit) {
  over_ = true;
  if (!helper_.joinable()) return true;
  job_->tell_to_stop();
  // If the thread was told to stop long ago, this does not wait for it again.
  if (job_->is_done_by(gave_up_.value_or(base::Clock::now()) + limit)) {
    helper_.join();
    return true;
  }
  base::log().info("gpu({}): NCCL does not end: its thread and memory stay until the process ends",
                   job_->settings.gpu->ordinal());
  helper_.abandon();
  return false;
}

}  // namespace tutti::runtime
