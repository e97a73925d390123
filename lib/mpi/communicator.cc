#include "mpi/communicator.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/thread.h"
#include "mpi/checked.h"
#include "mpi/collective_call.h"
#include "mpi/handle.h"
#include "mpi/library.h"

namespace tutti::mpi {
namespace {

/// The tag of last words, the only messages between two ranks on a communicator for all_gathers.
constexpr int last_words_tag = 1;
constexpr std::size_t most_last_words = 1024;

/// The message of a rank in one round of an all_gather. All rounds have the same size, so that the
/// round of a rank that begins anew still matches that of a rank that goes on.
struct GatherBlock {
  Stamp stamp;
  std::uint64_t total = 0;  ///< bytes of the whole text
  std::array<char, 2048 - sizeof(Stamp) - sizeof(std::uint64_t)> text{};
};

/// The memory that MPI reads and writes in one round.
struct GatherRound : CollectiveCall {
  GatherRound(const Stamp& stamp, std::string_view text, int round, int ranks)
      : all(static_cast<std::size_t>(ranks)) {
    mine.stamp = stamp;
    mine.stamp.round = round;
    mine.total = text.size();
    const auto begin = std::min(text.size(), static_cast<std::size_t>(round) * mine.text.size());
    text.copy(mine.text.data(), mine.text.size(), begin);
  }

  std::vector<Stamp> stamps() const {
    std::vector<Stamp> result;
    for (const GatherBlock& block : all) result.push_back(block.stamp);
    return result;
  }

  GatherBlock mine;
  std::vector<GatherBlock> all;
};

/// An MPI_Comm_idup under way, and the communicator that it makes.
struct Copying : CollectiveCall {
  std::unique_ptr<Communicator::Handle> handle = std::make_unique<Communicator::Handle>();
};

/// The copy of MPI_COMM_WORLD that is under way. Null if none is. A process has one, as it has one
/// MPI. Only the thread whose turn it is to create a store uses it.
std::shared_ptr<Copying>& world_copy() {
  static auto* const only = new std::shared_ptr<Copying>;
  return *only;
}

/// A communicator over some ranks that is being made. MPI's call for it blocks.
struct GroupCreation : CollectiveCall {
  explicit GroupCreation(std::vector<int> world_ranks) : ranks(std::move(world_ranks)) {}

  void make();
  bool poll(const char* name) override {
    if (!done.load(std::memory_order_acquire)) return false;
    checked(result, name);
    return true;
  }

  const std::vector<int> ranks;
  std::unique_ptr<Communicator::Handle> handle = std::make_unique<Communicator::Handle>();
  int result = MPI_SUCCESS;  ///< of MPI's call, once `done`
  std::atomic<bool> done{false};
  base::NamedThread thread;
};

/// The tag separates the calls of several threads. Every MPI has tags up to this one.
int tag_of(const std::vector<int>& ranks) {
  constexpr std::size_t most = 32767;
  std::size_t hash = ranks.size();
  for (const int rank : ranks) hash = hash * 31 + static_cast<std::size_t>(rank);
  return static_cast<int>(hash % most);
}

void GroupCreation::make() {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  result = MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group);
  if (result == MPI_SUCCESS) {
    result = MPI_Comm_create_group(MPI_COMM_WORLD, group, tag_of(ranks), &handle->comm);
    MPI_Group_free(&group);
  }
  MPI_Group_free(&world);
  done.store(true, std::memory_order_release);
}

/// The groups that no call has finished yet. The next call for the same ranks goes on with one of
/// them. It is never destroyed, because the process may end while MPI still makes a group.
struct Groupings {
  base::Mutex mutex{5};
  std::map<std::vector<int>, std::shared_ptr<GroupCreation>> begun TUTTI_GUARDED_BY(mutex);
};

Groupings& groupings() {
  static auto* const only = new Groupings;
  return *only;
}

/// Only for the thread whose turn it is to create a store over these ranks.
std::shared_ptr<GroupCreation> begin_or_go_on(const std::vector<int>& ranks) {
  std::shared_ptr<GroupCreation> grouping;
  {
    const base::Lock lock(groupings().mutex);
    std::shared_ptr<GroupCreation>& begun = groupings().begun[ranks];
    if (begun) return begun;
    grouping = begun = std::make_shared<GroupCreation>(ranks);
  }
  if (is_multithreaded()) {
    grouping->thread =
        base::NamedThread("tutti-group", [making = grouping.get()] { making->make(); });
  } else {
    grouping->make();
  }
  return grouping;
}

void forget(const std::vector<int>& ranks) {
  const base::Lock lock(groupings().mutex);
  groupings().begun.erase(ranks);
}

void set_up(Communicator::Handle& handle) {
  checked(MPI_Comm_set_errhandler(handle.comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  checked(MPI_Comm_rank(handle.comm, &handle.rank), "MPI_Comm_rank");
  checked(MPI_Comm_size(handle.comm, &handle.size), "MPI_Comm_size");
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;

Communicator Communicator::world(std::chrono::milliseconds limit, const Look& look) {
  std::shared_ptr<Copying>& copy = world_copy();
  if (!copy) {
    copy = std::make_shared<Copying>();
    checked(MPI_Comm_idup(MPI_COMM_WORLD, &copy->handle->comm, &copy->request), "MPI_Comm_idup");
  }
  wait_for(copy, "MPI_Comm_idup", limit, "every rank to create its store", look);
  const auto done = std::exchange(copy, nullptr);
  set_up(*done->handle);
  return Communicator(std::move(done->handle));
}

Communicator Communicator::group(const std::vector<int>& world_ranks,
                                 std::chrono::milliseconds limit, const Look& look) {
  const std::shared_ptr<GroupCreation> grouping = begin_or_go_on(world_ranks);
  wait_for(grouping, "MPI_Comm_create_group", limit,
           "the other ranks of its group to create their store", look);
  forget(world_ranks);
  set_up(*grouping->handle);
  return Communicator(std::move(grouping->handle));
}

Communicator Communicator::duplicate(std::chrono::milliseconds limit, const Look& look) const {
  const auto copy = std::make_shared<Copying>();
  checked(MPI_Comm_idup(handle_->comm, &copy->handle->comm, &copy->request), "MPI_Comm_idup");
  wait_for(copy, "MPI_Comm_idup", limit, "every rank to copy tutti's communicator", look);
  set_up(*copy->handle);
  return Communicator(std::move(copy->handle));
}

Communicator::~Communicator() {
  if (!handle_ || handle_->abandoned || handle_->comm == MPI_COMM_NULL) return;
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised == 0) MPI_Comm_free(&handle_->comm);
}

int Communicator::rank() const {
  return handle_->rank;
}
int Communicator::size() const {
  return handle_->size;
}
bool Communicator::may_use_any_thread() const {
  int level = MPI_THREAD_SINGLE;
  checked(MPI_Query_thread(&level), "MPI_Query_thread");
  return level >= MPI_THREAD_SERIALIZED;
}

void Communicator::progress() const {
  for (int i = 0; i < calls_a_look; ++i) {
    int arrived = 0;
    checked(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, handle_->comm, &arrived, MPI_STATUS_IGNORE),
            "MPI_Iprobe");
  }
}

void Communicator::tell_others(const std::string& text) const {
  handle_->told = text.substr(0, most_last_words);
  const std::string& told = handle_->told;
  for (int rank = 0; rank < handle_->size; ++rank) {
    if (rank == handle_->rank) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    checked(MPI_Isend(told.data(), static_cast<int>(told.size()), MPI_BYTE, rank, last_words_tag,
                      handle_->comm, &request),
            "MPI_Isend of last words");
    checked(MPI_Request_free(&request), "MPI_Request_free");
  }
}

std::optional<std::string> Communicator::receive_last_words() const {
  if (handle_->heard) return handle_->heard;
  int arrived = 0;
  MPI_Status status;
  checked(MPI_Iprobe(MPI_ANY_SOURCE, last_words_tag, handle_->comm, &arrived, &status),
          "MPI_Iprobe");
  if (arrived == 0) return std::nullopt;
  std::string text(most_last_words, '\0');
  checked(MPI_Recv(text.data(), most_last_words, MPI_BYTE, status.MPI_SOURCE, last_words_tag,
                   handle_->comm, &status),
          "MPI_Recv of last words");
  int count = 0;
  checked(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  text.resize(static_cast<std::size_t>(count));
  handle_->heard = std::move(text);
  return handle_->heard;
}

void Communicator::hold(std::shared_ptr<const void> memory) {
  handle_->held->push_back(std::move(memory));
}

void Communicator::abandon() {
  handle_->abandoned = true;
}

std::vector<std::string> Communicator::all_gather(const std::string& mine,
                                                  std::chrono::milliseconds limit,
                                                  const std::string& waiting_for, const Look& look,
                                                  const Step& step) const {
  std::vector<std::string> texts(static_cast<std::size_t>(handle_->size));
  bool more = true;
  for (int number = 0; more; ++number) {
    const auto round = std::make_shared<GatherRound>(step.mine, mine, number, handle_->size);
    checked(MPI_Iallgather(&round->mine, sizeof(GatherBlock), MPI_BYTE, round->all.data(),
                           sizeof(GatherBlock), MPI_BYTE, handle_->comm, &round->request),
            "MPI_Iallgather");
    wait_for(round, "MPI_Iallgather", limit, waiting_for, look);
    if (step.check) step.check(round->stamps());
    more = false;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      const GatherBlock& said = round->all[rank];
      const auto left = static_cast<std::size_t>(said.total) - texts[rank].size();
      texts[rank].append(said.text.data(), std::min(left, said.text.size()));
      more |= texts[rank].size() < said.total;
    }
  }
  return texts;
}

}  // namespace tutti::mpi
