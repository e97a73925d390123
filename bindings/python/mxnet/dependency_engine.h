#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "python/mxnet/library.h"
#include "tutti/kvstore.h"

namespace tutti::python::mxnet {

namespace nb = nanobind;

/// Calls of a store that MXNet's engine starts when their arrays are ready. For the engine they are
/// done when the store has exchanged the arrays. No thread waits. If a call fails, the arrays that
/// it was to write fail, and a program that waits for these arrays gets the error.
class DependencyEngine {
 public:
  enum class Kind { pushpull, broadcast, push, pull };

  /// Throws the same errors as the constructor of Library.
  DependencyEngine(const std::string& path, std::shared_ptr<KVStore> store);

  /// The arrays that one call exchanges.
  struct Call {
    Key key;
    /// One array for each device. A broadcast and a pull have none.
    std::vector<Handle> ins;
    /// These may be some of `ins`. A broadcast gives them rank 0's first array.
    std::vector<Handle> outs;
    /// Calls with the same turn go one after another.
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
