#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "python/mxnet/library.h"
#include "tutti/kvstore.h"

namespace tutti::python::mxnet {

namespace nb = nanobind;

class UnderWay;

/// Calls of a store that MXNet's engine starts when their arrays are ready, and that are done for
/// it when the store has exchanged them: nobody waits. A call that fails fails the arrays that it
/// was to write, and whoever waits for these gets the error.
class Engine {
 public:
  enum class Kind { pushpull, broadcast };

  /// Throws as Library's constructor does.
  Engine(const std::string& path, std::shared_ptr<KVStore> store);

  /// What one call exchanges: `arrays` in place, one array for each device.
  struct Call {
    Key key;
    std::vector<Handle> arrays;
    /// Calls with the same one go one after another.
    Handle turn;
    int priority;
  };
  /// Do not block, but in MXNet's NaiveEngine. Need no GIL.
  void pushpull(Call call);
  /// Of rank 0's first array.
  void broadcast(Call call);
  /// Fails the calls that the engine has, so that it can end; the store goes on with those that it
  /// has. For the end of the program.
  void abandon();

 private:
  void push(Call call, Kind kind);

  const std::shared_ptr<const Library> library_;
  const std::shared_ptr<UnderWay> under_way_;
  /// Not owned: the last reference may be dropped on a thread that the store would wait for.
  const std::weak_ptr<KVStore> store_;
};

void bind_mxnet(nb::module_& module);

}  // namespace tutti::python::mxnet
