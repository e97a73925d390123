#include "benchmarks/allreduce/world.h"

#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <cstring>
#include <map>
#include <new>

#include "base/printable.h"

namespace tutti::bench {
namespace {

std::string thread_level() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  switch (level) {
    case MPI_THREAD_MULTIPLE:
      return "MPI_THREAD_MULTIPLE";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    default:
      return "MPI_THREAD_SINGLE";
  }
}

/// The value of one of the MPI library's control variables; "unknown" when it has none of the name.
std::string control_variable(const char* name) {
  int index = 0;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return "unknown";
  int size = 0;
  int verbosity = 0;
  int bind = 0;
  int scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum names = MPI_T_ENUM_NULL;
  int no_text = 0;
  MPI_T_cvar_get_info(index, nullptr, &no_text, &verbosity, &type, &names, nullptr, &no_text, &bind,
                      &scope);
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &size) != MPI_SUCCESS) return "unknown";
  // Flags and enumerations are one int at most. A longer variable is text, and none of those read
  // here is.
  alignas(8) std::array<char, 64> value{};
  std::string text = "unknown";
  if (size == 1 && MPI_T_cvar_read(handle, value.data()) == MPI_SUCCESS) {
    int number = 0;
    std::memcpy(&number, value.data(), sizeof number);
    text = std::to_string(number);
    std::array<char, 128> word{};
    int length = static_cast<int>(word.size());
    if (names != MPI_T_ENUM_NULL &&
        MPI_T_enum_get_item(names, number, &number, word.data(), &length) == MPI_SUCCESS) {
      text = word.data();
    }
  }
  MPI_T_cvar_handle_free(&handle);
  return text;
}

std::string algorithm(const std::string& operation) {
  if (control_variable("coll_tuned_use_dynamic_rules") != "true") return "chosen by the library";
  return control_variable(("coll_tuned_" + operation + "_algorithm").c_str());
}

}  // namespace

World::World(int& argc, char**& argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  int beside = 0;
  MPI_Comm_size(machine, &beside);
  if (beside == size_) share_memory(machine);
  MPI_Comm_free(&machine);
}

void World::share_memory(MPI_Comm machine) {
  const auto all = static_cast<MPI_Aint>(static_cast<std::size_t>(size_) * sizeof(Arrivals));
  void* memory = nullptr;
  MPI_Win_allocate_shared(rank_ == 0 ? all : 0, 1, MPI_INFO_NULL, machine, &memory, &memory_);
  MPI_Aint bytes = 0;
  int unit = 0;
  MPI_Win_shared_query(memory_, 0, &bytes, &unit, &memory);
  arrivals_ = static_cast<Arrivals*>(memory);
  new (arrivals_ + rank_) Arrivals{};
  MPI_Barrier(machine);
}

World::~World() {
  if (memory_ != MPI_WIN_NULL) MPI_Win_free(&memory_);
  MPI_Finalize();
}

void World::barrier() const {
  if (arrivals_ == nullptr) {
    MPI_Barrier(MPI_COMM_WORLD);
    return;
  }
  // A rank that waits longer may need the processor of the one that is missing.
  constexpr int looks_before_yields = 1000;
  arrivals_[rank_].count.store(++met_, std::memory_order_release);
  for (int rank = 0; rank < size_; ++rank) {
    for (int looks = 0; arrivals_[rank].count.load(std::memory_order_acquire) < met_; ++looks) {
      if (looks > looks_before_yields) ::sched_yield();
    }
  }
}

std::vector<double> World::largest(std::vector<double> mine) const {
  MPI_Allreduce(MPI_IN_PLACE, mine.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_MAX,
                MPI_COMM_WORLD);
  return mine;
}

double World::sum(double mine) const {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return mine;
}

std::vector<std::string> World::gather(const std::string& mine) const {
  constexpr std::size_t width = MPI_MAX_PROCESSOR_NAME;
  std::vector<char> all(width * static_cast<std::size_t>(size_), '\0');
  std::array<char, width> own{};
  mine.copy(own.data(), width - 1);
  MPI_Allgather(own.data(), width, MPI_CHAR, all.data(), width, MPI_CHAR, MPI_COMM_WORLD);
  std::vector<std::string> result;
  for (std::size_t at = 0; at < all.size(); at += width) result.emplace_back(all.data() + at);
  return result;
}

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  return name.data();
}

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data());
  return all.substr(0, all.find_first_of(",\n"));
}

std::vector<std::string> describe_mpi() {
  // Open MPI 4 takes the level asked for here as the level of the whole process.
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
  std::vector<std::string> lines{
      "MPI: " + mpi_version() + ", " + thread_level(),
      "mpi_yield_when_idle: " + control_variable("mpi_yield_when_idle"),
      "single copy in a node: " + control_variable("btl_vader_single_copy_mechanism"),
      "allreduce algorithm: " + algorithm("allreduce"),
      "broadcast algorithm: " + algorithm("bcast")};
  MPI_T_finalize();
  return lines;
}

std::vector<int> number_hosts(const std::vector<std::string>& identity_of_rank) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  hosts.reserve(identity_of_rank.size());
  for (const std::string& identity : identity_of_rank) {
    hosts.push_back(numbers.try_emplace(identity, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

std::string describe_mapping(const std::vector<std::string>& of_rank) {
  std::string text = "ranks";
  for (std::size_t first = 0, last = 0; first < of_rank.size(); first = last + 1) {
    last = first;
    while (last + 1 < of_rank.size() && of_rank[last + 1] == of_rank[first]) ++last;
    text += fmt::format("{} {}", first == 0 ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
    text += " on " + base::printable(of_rank[first]);
  }
  return text;
}

std::string bound_to() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return "unknown processors";
  std::string text;
  for (int first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &mask)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &mask)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (last > first) text += fmt::format("-{}", last);
    first = last;
  }
  return (text.find_first_of(",-") == std::string::npos ? "processor " : "processors ") + text;
}

}  // namespace tutti::bench
