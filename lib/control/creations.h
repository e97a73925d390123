#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace tutti::control {

/// A store that a rank creates, or has given up.
struct Creation {
  std::vector<int> ranks;  ///< of the job, ascending; empty: all
  int number = 0;          ///< how many stores over these ranks it has made before
  bool given_up = false;
  bool operator==(const Creation&) const = default;
};

/// The stores that the job's processes on this machine create at the moment. Each process writes
/// its own to a file, in a folder of the job, before it waits for others. Thread-safe.
class Creations {
 public:
  /// As `PidFiles`. A process that cannot write its file has none.
  Creations(std::string folder, std::string job, int rank);

  /// This process begins to create a store. Stores that it gave up before are forgotten.
  void begin(const Creation& creation) TUTTI_EXCLUDES(mutex_);
  /// This process has created the store, or has given it up.
  void end(const Creation& creation, bool given_up) TUTTI_EXCLUDES(mutex_);

  /// The stores that that rank creates or has given up. Nothing if the rank has no file, so that
  /// they are not known. Does not block.
  std::optional<std::vector<Creation>> of(int rank) const;

 private:
  std::string path_of(int rank) const;
  void write() TUTTI_REQUIRES(mutex_);

  const std::string folder_;
  const std::string job_;
  const int rank_;
  base::Mutex mutex_{5};
  std::vector<Creation> mine_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::control
