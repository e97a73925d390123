#pragma once
#include <sys/types.h>

#include <optional>
#include <set>
#include <string>

namespace tutti::control {

/// The ranks whose processes run on this machine, as mpirun's daemon, which started them, has them
/// for children. Unlike `Presence` it sees ranks that have not come to any `create`. A rank may be
/// a program that runs another one, such as a shell: it runs as long as the first does.
class Siblings {
 public:
  /// `name_space`: the MPI launcher's name for the job.
  explicit Siblings(const std::string& name_space);

  /// Nothing: it cannot be seen which run, as where a rank is in a container.
  std::optional<std::set<int>> running() const;

 private:
  const std::string name_space_;
  pid_t daemon_ = 0;  ///< 0: it is not seen
};

}  // namespace tutti::control
