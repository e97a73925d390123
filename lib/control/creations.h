#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace tutti::control {

/// A store that a rank is creating, or has given up.
struct Creation {
  std::vector<int> ranks;  ///< of the job, ascending; empty: all
  int number = 0;          ///< the number of stores over these ranks that it has made before
  bool given_up = false;
  bool operator==(const Creation&) const = default;
};

/// The stores that the job's processes on this machine are creating. Before a process waits for
/// others, it writes its own stores to a file in a folder of the job. Thread-safe.
class Creations {
 public:
  /// The arguments are those of `PidFiles`. If a process cannot write its file, the others do not
  /// see its stores.
  Creations(std::string folder, std::string job, int rank);

  /// Notes that this process begins to create a store. Forgets the stores that it gave up before.
  void begin(const Creation& creation) TUTTI_EXCLUDES(mutex_);
  /// Notes that this process has created the store, or has given it up.
  void end(const Creation& creation, bool given_up) TUTTI_EXCLUDES(mutex_);

  /// The stores that this rank is creating or has given up. Returns nothing if the rank has no
  /// file: then its stores are not known. Does not block.
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
