// Errors while a store is made: every rank throws, and the next store works.
#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "../unit/narrow_addresses.h"
#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using namespace std::chrono_literals;
using Catch::Contains;
using Catch::EndsWith;

namespace {

/// Set while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

std::pair<int, int> rank_and_size() {
  const auto store = make_store();
  return {store->rank(), store->num_workers()};
}

}  // namespace

TEST_CASE("an unknown type string is refused with the nearest known one") {
  const Error error = error_of([] { KVStore::create("dist_sink_mpi"); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK_THAT(error.what(), Contains("'dist_sink_mpi'") && Contains("did you mean 'dist_sync_mpi'"));
  check_alive(*make_store());
}

TEST_CASE("a misspelt variable or value is refused with what was meant") {
  {
    const Variable misspelt("TUTTI_FUSION_BITES", "1000");
    const Error error = error_of([] { KVStore::create("dist_sync_mpi"); });
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK_THAT(error.what(),
               Contains("TUTTI_FUSION_BITES") && Contains("did you mean 'TUTTI_FUSION_BYTES'"));
  }
  {
    const Variable unusable("TUTTI_FUSION_BYTES", "many");
    const Error error = error_of([] { KVStore::create("dist_sync_mpi"); });
    CHECK_THAT(error.what(), Contains("TUTTI_FUSION_BYTES='many'") && Contains("64K"));
  }
  {
    const Variable nowhere("DMLC_INTERFACE", "nowhere0");
    const Error error = error_of([] { KVStore::create("dist_sync_mpi"); });
    CHECK_THAT(error.what(), Contains("'nowhere0'") && Contains("lo"));
  }
  check_alive(*make_store());
}

TEST_CASE("options that differ between ranks fail create on every rank, with ranks and values") {
  const auto [rank, ranks] = rank_and_size();
  if (ranks == 1) return;
  const bool odd = rank == ranks - 1;
  struct Difference {
    std::function<void(Options&)> set;
    std::string variable, odd_value;
  };
  const std::vector<Difference> differences = {
      {[](Options& o) { o.fusion_bytes = 1000; }, "TUTTI_FUSION_BYTES", "1000"},
      {[](Options& o) { o.part_bytes = 2000; }, "TUTTI_PART_BYTES", "2000"},
      {[](Options& o) { o.slice_bytes = 65536; }, "TUTTI_SLICE_BYTES", "65536"},
      {[](Options& o) { o.encrypt = true; }, "TUTTI_ENCRYPT", "1"},
      {[](Options& o) { o.reproducible = false; }, "TUTTI_REPRODUCIBLE", "0"},
      {[](Options& o) { o.replay = !o.replay; }, "TUTTI_REPLAY", ""},
      {[](Options& o) { o.key_timeout = 7s; }, "TUTTI_TIMEOUT_SECONDS", "7000 ms"},
  };
  for (const Difference& difference : differences) {
    Options options = Options::from_env();
    if (odd) difference.set(options);
    const Error error = error_of([&] { make_store(options); });
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK_THAT(error.what(),
               Contains(difference.variable) &&
                   Contains(fmt::format("{} on rank {}", difference.odd_value, ranks - 1)) &&
                   Contains(ranks == 2 ? "on rank 0" : fmt::format("on ranks 0-{}", ranks - 2)));
  }
  check_alive(*make_store());
}

TEST_CASE("who waits too long for another thread to create its store is told what it waits for") {
  const auto [rank, ranks] = rank_and_size();
  if (ranks == 1) return;
  if (rank != 0) {
    // The first thread's store waits for this one.
    std::this_thread::sleep_for(600ms);
    check_alive(*make_store());
    return;
  }
  std::unique_ptr<KVStore> first;
  std::thread other([&first] { first = make_store(); });
  std::this_thread::sleep_for(200ms);
  Options impatient = Options::from_env();
  impatient.create_timeout = 50ms;
  const Error error = error_of([&] { make_store(impatient); });
  other.join();
  CHECK(error.code() == ErrorCode::timeout);
  CHECK_THAT(error.what(), Contains("waited 0.05 s (create_timeout, TUTTI_CREATE_SECONDS) for "
                                    "another thread of this process"));
  check_alive(*first);
}

TEST_CASE("a world of another size than the launcher says is an error, never a world of one") {
  const int ranks = rank_and_size().second;
  {
    const Variable said("OMPI_COMM_WORLD_SIZE", std::to_string(ranks + 3));
    const Error error = error_of([] { make_store(); });
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK_THAT(error.what(), Contains(fmt::format("MPI sees {} process", ranks)) &&
                                 Contains(fmt::format("OMPI_COMM_WORLD_SIZE={}", ranks + 3)) &&
                                 Contains("mpirun"));
  }
  check_alive(*make_store());
}

TEST_CASE("a world of one that another MPI's launcher started as many is an error") {
  if (rank_and_size().second != 1) return;
  const Variable own("OMPI_COMM_WORLD_SIZE", "");
  const Variable mpirun("PMIX_RANK", "");
  using Names = std::pair<const char*, const char*>;
  for (const auto& [variable, rank] :
       {Names{"PMI_SIZE", "PMI_RANK"}, Names{"SLURM_NTASKS", "PMIX_RANK"},
        Names{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}, Names{"WORLD_SIZE", "RANK"},
        Names{"WORLD_SIZE", "OTHER"}}) {
    const Variable others(variable, "4");
    const Variable place(rank, "0");
    const Error error = error_of([] { make_store(); });
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK_THAT(error.what(), Contains("MPI sees 1 process") && Contains("started 4") &&
                                 Contains(fmt::format("{}=4", variable)) &&
                                 Contains("type instead: mpirun -n 4 PROGRAM") &&
                                 EndsWith(fmt::format("unset {}", variable)));
  }
  check_alive(*make_store());
}

TEST_CASE("a batch system's size without its launcher's rank leaves one process alone") {
  if (rank_and_size().second != 1) return;
  const Variable own("OMPI_COMM_WORLD_SIZE", "");
  const Variable mpirun("PMIX_RANK", "");
  const Variable task("SLURM_PROCID", "0");  // a batch script has one, and no step
  for (const char* const variable : {"PMI_SIZE", "SLURM_NTASKS"}) {
    const Variable others(variable, "4");
    check_alive(*make_store());
  }
}

TEST_CASE("a rank without room for the shared memory fails create on every rank") {
  const auto [rank, ranks] = rank_and_size();
  const int poor = ranks - 1;
  const auto narrow =
      rank == poor ? std::make_unique<NarrowAddresses>(std::size_t{256} << 20) : nullptr;
  const Error error = error_of([] { make_store(); });
  CHECK(error.code() == ErrorCode::internal);
  CHECK_THAT(error.what(), Contains(fmt::format("rank {} could not", poor)) &&
                               Contains("shared memory") && Contains("bytes") &&
                               Contains("ulimit -v"));
}

TEST_CASE("a store is made where one could not be made for want of memory") {
  check_alive(*make_store());
}

TEST_CASE("asking for more shared memory than there is says how much there is") {
  auto store = make_store();
  const auto machine = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  const Error beyond = error_of([&] { store->allocate({2 * machine}, DType::u8); });
  CHECK(beyond.code() == ErrorCode::internal);
  CHECK_THAT(beyond.what(),
             Contains(std::to_string(2 * machine)) && Contains(std::to_string(machine)));
  const Error all = error_of([&] { store->allocate({machine - 8192}, DType::u8); });
  CHECK(all.code() == ErrorCode::internal);
  CHECK_THAT(all.what(), Contains(std::to_string(machine - 8192)) && Contains("left") &&
                             Contains("fewer ranks"));
  const Tensor small = store->allocate({1000}, DType::f32);
  store->pushpull("small", small, small).wait();
  check_alive(*store);
}

TEST_CASE("a timeline that would be a device is refused on every rank, and leaves nothing there") {
  Options options = Options::from_env();
  options.timeline = "/dev/full";
  const Error error = error_of([&] { KVStore::create("dist_sync_mpi", options); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK_THAT(error.what(),
             Contains("rank 0 cannot write its timeline to /dev/full: it is no regular "
                      "file"));
  for (const int rank : {0, 1}) {
    CHECK(::access(fmt::format("/dev/full.{}.part", rank).c_str(), F_OK) != 0);
  }
  CHECK_NOTHROW(rank_and_size());
}
