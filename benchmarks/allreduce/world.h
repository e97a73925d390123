#pragma once
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::bench {

/// The ranks of this run, and collectives among them over MPI. An MPI error ends the job, as is
/// MPI's default.
class World {
 public:
  /// Initialises MPI with MPI_THREAD_MULTIPLE, as tutti would, so that both contestants pay the
  /// same for it.
  World(int& argc, char**& argv);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool speaks() const { return rank_ == 0; }
  bool is_one_machine() const { return arrivals_ != nullptr; }

  /// Where all ranks are on one machine, it is a barrier in shared memory that belongs to no
  /// contestant: after MPI's own barrier MPI's ranks would begin closer together than tutti's.
  void barrier() const;
  /// The maximum over all ranks, element by element.
  std::vector<double> largest(std::vector<double> mine) const;
  double largest(double mine) const { return largest(std::vector<double>{mine})[0]; }
  double sum(double mine) const;
  /// The texts of all ranks, by rank.
  std::vector<std::string> gather(const std::string& mine) const;

 private:
  void share_memory(MPI_Comm machine);

  /// How many barriers a rank has come to, on a cache line of its own.
  struct alignas(64) Arrivals {
    std::atomic<std::uint64_t> count;
  };

  int rank_ = 0;
  int size_ = 1;
  MPI_Win memory_ = MPI_WIN_NULL;  ///< none: the ranks are on several machines
  Arrivals* arrivals_ = nullptr;   ///< by rank
  mutable std::uint64_t met_ = 0;  ///< barriers of this rank
};

/// The facts about this MPI that a reader of the results needs, as lines of "name: value".
std::vector<std::string> describe_mpi();
/// "Open MPI v4.1.4".
std::string mpi_version();
/// The ranks that have each text, such as the name of their host, one after the other: "ranks 0-3
/// on a, 4-7 on b".
std::string describe_mapping(const std::vector<std::string>& of_rank);
/// The hosts of the ranks, numbered in the order of their first ranks. Equal texts: the same host.
std::vector<int> number_hosts(const std::vector<std::string>& identity_of_rank);
/// This rank's host.
std::string host_name();
/// "processors 0-3, 8": those to which this thread is bound.
std::string bound_to();

}  // namespace tutti::bench
