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

  /// Prepares the end of the process.
  /// - With status 0 the engine first does its remaining operations, because the other ranks count
  ///   on them. If some of them fail, and the program was told of no failure, the status becomes 1.
  /// - With another status the other ranks may wait for something else, and have to learn that this
  ///   rank is lost. So the calls of all engines fail, and MXNet's engine comes to rest. Stores go
  ///   on with the calls that they have. Then the process ends without destructors.
  void finish_at_exit() const;

 private:
  const std::shared_ptr<const Library> library_;
  /// Not owned: the last reference may be dropped on a thread that the store would wait for.
  const std::weak_ptr<KVStore> store_;
};

void bind_mxnet(nb::module_& module);

}  // namespace tutti::python::mxnet
