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
  /// When the process exits with status 0, what MXNet's engine has not done yet is done first: the
  /// other ranks count on it. With another status they may wait for something else: the calls that
  /// it has fail, and it comes to rest.
  void end_at_exit() const;

 private:
  void push(Call call, Kind kind);

  const std::shared_ptr<const Library> library_;
  /// Not owned: the last reference may be dropped on a thread that the store would wait for.
  const std::weak_ptr<KVStore> store_;
};

void bind_mxnet(nb::module_& module);

}  // namespace tutti::python::mxnet
