#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "python/mxnet/library.h"
#include "tutti/kvstore.h"

namespace tutti::python::mxnet {

namespace nb = nanobind;

/// Calls of a store that MXNet's engine starts when their arrays are ready, and that are done for
/// it when the store has exchanged them: nobody waits. A call that fails fails the arrays that it
/// was to write, and whoever waits for these gets the error.
class DependencyEngine {
 public:
  enum class Kind { pushpull, broadcast, push, pull };

  /// Throws as Library's constructor does.
  DependencyEngine(const std::string& path, std::shared_ptr<KVStore> store);

  /// The arrays that one call exchanges.
  struct Call {
    Key key;
    /// One array for each device; a broadcast and a pull have none.
    std::vector<Handle> ins;
    /// May be some of `ins`. A broadcast gives them rank 0's first one.
    std::vector<Handle> outs;
    /// Calls with the same one go one after another.
    Handle turn;
    int priority;
  };
  /// Does not block. Needs no GIL.
  void push(Call call, Kind kind);

  /// For the end of the process. With status 0 what MXNet's engine has not done yet is done first,
  /// for the other ranks count on it; where some of that failed, and the program was told of no
  /// failure, the status becomes 1. With another status they may wait for something else, and
  /// have to learn that this rank is lost: the engine's calls fail, whatever engine they are of, so
  /// that it comes to rest; stores go on with those that they have. Then the process is ended
  /// without destructors.
  void finish_at_exit() const;

 private:
  const std::shared_ptr<const Library> library_;
  /// Not owned: the last reference may be dropped on a thread that the store would wait for.
  const std::weak_ptr<KVStore> store_;
};

void bind_mxnet(nb::module_& module);

}  // namespace tutti::python::mxnet
