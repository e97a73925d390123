#pragma once
#include <sys/types.h>

#include <optional>
#include <set>
#include <string>

namespace tutti::control {

/// The ranks whose processes run on this machine. They are the children of mpirun's daemon, which
/// started them. Unlike `Presence`, this sees ranks that have not called `create`. A rank may be a
/// program that runs another one, such as a shell. It counts as running as long as the first
/// program runs.
class Siblings {
 public:
  /// `name_space` is the name that MPI's launcher has for the job.
  explicit Siblings(const std::string& name_space);

  /// Returns nothing if the running ranks cannot be seen, for example if a rank is in a container.
  std::optional<std::set<int>> running() const;

 private:
  const std::string name_space_;
  pid_t daemon_ = 0;  ///< 0: it is not seen
};

}  // namespace tutti::control
