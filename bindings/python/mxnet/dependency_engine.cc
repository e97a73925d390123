#include "python/mxnet/dependency_engine.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "python/arguments.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/mxnet/failures.h"
#include "python/store.h"
#include "tutti/error.h"

namespace tutti::python::mxnet {
namespace {

using Kind = DependencyEngine::Kind;

/// The engine's operations that exchange something now, until the program abandons them.
class UnderWay {
 public:
  /// Returns false if the operations are already abandoned.
  bool add(const void* exchange, const OnComplete& done) {
    const std::lock_guard lock(mutex_);
    if (!abandoned_) exchanges_.emplace(exchange, done);
    return !abandoned_;
  }

  /// Whether the exchange may tell the engine that it is done. Only one caller may.
  bool remove(const void* exchange) {
    const std::lock_guard lock(mutex_);
    return exchanges_.erase(exchange) == 1;
  }

  bool abandoned() const {
    const std::lock_guard lock(mutex_);
    return abandoned_;
  }

  std::map<const void*, OnComplete> abandon() {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    return std::exchange(exchanges_, {});
  }

 private:
  mutable std::mutex mutex_;                     ///< level 5
  bool abandoned_ = false;                       ///< guarded by mutex_
  std::map<const void*, OnComplete> exchanges_;  ///< guarded by mutex_
};

/// The operations under way of all engines. It is never destroyed, because the process may end
/// while MXNet's threads run.
UnderWay& under_way() {
  static auto* const all = new UnderWay;
  return *all;
}

void end(const OnComplete& done, const std::exception_ptr& error) {
  if (error == nullptr) return done(nullptr);
  const std::runtime_error told(remember(error));
  done(&told);
}

std::exception_ptr program_ends() {
  return std::make_exception_ptr(
      Error(ErrorCode::aborted, "the program ends with an error, and waits for no exchange"));
}

/// A call, as long as the engine has it.
class EngineCall {
 public:
  EngineCall(std::shared_ptr<const Library> library, std::weak_ptr<KVStore> store,
             DependencyEngine::Call call, Kind kind)
      : library_(std::move(library)),
        store_(std::move(store)),
        key_(std::move(call.key)),
        priority_(call.priority),
        kind_(kind) {
    share(call.ins, ins_);
    share(call.outs, outs_);
  }
  ~EngineCall() {
    for (const auto* const arrays : {&ins_, &outs_}) {
      for (const Handle array : *arrays) library_->free(array);
    }
  }
  EngineCall(const EngineCall&) = delete;
  EngineCall& operator=(const EngineCall&) = delete;

  /// Runs on a thread of the engine. The arrays belong to this call until `done` is called.
  void start(const OnComplete& done) noexcept {
    if (!under_way().add(this, done)) return end(done, program_ends());
    const auto end_once = [this, done](const std::exception_ptr& error) {
      if (under_way().remove(this)) end(done, error);
    };
    try {
      submit().then(end_once);
    } catch (...) {
      end_once(std::current_exception());
    }
  }

  /// Called when the engine no longer needs the call. The store may still write into the arrays of
  /// an abandoned call, so these stay until the process ends.
  static void drop(EngineCall* exchange) {
    if (!under_way().abandoned()) delete exchange;
  }

 private:
  void share(const std::vector<Handle>& arrays, std::vector<Handle>& into) {
    into.reserve(arrays.size());
    for (const Handle array : arrays) into.push_back(library_->share(array));
  }

  Values values_of(const std::vector<Handle>& arrays) {
    std::vector<Tensor> values;
    for (const Handle array : arrays) {
      memory_.push_back(library_->memory(array));
      values.push_back(memory_.back().tensor());
    }
    return values;
  }

  Pending submit() {
    const std::shared_ptr<KVStore> store = store_.lock();
    if (store == nullptr)
      throw Error(ErrorCode::aborted,
                  "the store that key " + key_.describe() + " belongs to is closed");
    const CallOptions options{.priority = priority_};
    switch (kind_) {
      case Kind::broadcast:
        return store->broadcast(key_, values_of(outs_), 0, options);
      case Kind::push:
        return store->push({key_}, {values_of(ins_)}, options);
      case Kind::pull:
        return store->pull({key_}, {values_of(outs_)}, options);
      case Kind::pushpull:
        break;
    }
    return store->pushpull(key_, values_of(ins_), values_of(outs_), options);
  }

  const std::shared_ptr<const Library> library_;
  const std::weak_ptr<KVStore> store_;
  const Key key_;
  const int priority_;
  const Kind kind_;
  std::vector<Handle> ins_;
  std::vector<Handle> outs_;
  std::vector<Memory> memory_;
};

void run(void* /*context*/, void* on_complete, void* exchange) {
  static_cast<EngineCall*>(exchange)->start(*static_cast<const OnComplete*>(on_complete));
}

void destroy(void* exchange) {
  EngineCall::drop(static_cast<EngineCall*>(exchange));
}

}  // namespace

DependencyEngine::DependencyEngine(const std::string& path, std::shared_ptr<KVStore> store)
    : library_(std::make_shared<const Library>(path)), store_(std::move(store)) {}

void DependencyEngine::finish_at_exit() const {
  Store::call_last([library = library_, owner = ::getpid()](int status) {
    if (::getpid() != owner) return;  // the exit of a forked child does nothing here
    if (status == 0) {
      library->finish();
      const std::string words = untold();
      if (words.empty()) return;
      return Store::end_process(1,
                                "an exchange failed, and the program waited for none of its "
                                "arrays: " +
                                    words);
    }
    for (const auto& [exchange, done] : under_way().abandon()) end(done, program_ends());
    library->stop();
    // The engine's threads still run operations that they have begun, with objects that exit would
    // destroy.
    Store::end_process(status);
  });
}

void DependencyEngine::push(Call call, Kind kind) {
  // The operation also owns the arrays that it reads, because it may have to lay them out anew.
  std::vector<Handle> used = call.ins;
  used.insert(used.end(), call.outs.begin(), call.outs.end());
  used.push_back(call.turn);
  const int priority = call.priority;
  auto exchange = std::make_unique<EngineCall>(library_, store_, std::move(call), kind);
  // The engine destroys it, even if it refuses the operation.
  library_->push({run, exchange.release(), destroy, priority, "tutti"}, used);
}

namespace {

const std::string parameters =
    "(self, key: int | str, ins: list[int], outs: list[int], turn: int, priority: int) -> None";

Handle to_handle(std::uintptr_t address) {
  return reinterpret_cast<Handle>(address);
}

std::vector<Handle> to_handles(const std::vector<std::uintptr_t>& addresses) {
  std::vector<Handle> handles;
  for (const std::uintptr_t address : addresses) handles.push_back(to_handle(address));
  return handles;
}

template <Kind kind>
void exchange(DependencyEngine& engine, nb::handle key, const std::vector<std::uintptr_t>& ins,
              const std::vector<std::uintptr_t>& outs, std::uintptr_t turn, int priority) {
  DependencyEngine::Call call{Arguments(key).keys().front(), to_handles(ins), to_handles(outs),
                              to_handle(turn), priority};
  const WithoutGil unlocked;
  engine.push(std::move(call), kind);
}

template <Kind kind>
void add_call(nb::class_<DependencyEngine>& engine, const char* name) {
  using nb::arg;
  engine.def(name, &exchange<kind>, arg("key"), arg("ins"), arg("outs"), arg("turn"),
             arg("priority"), nb::sig(("def " + std::string(name) + parameters).c_str()));
}

}  // namespace

void bind_mxnet(nb::module_& module) {
  using nb::arg;
  nb::module_ mxnet = module.def_submodule("mxnet", "What tutti.mxnet is made of.");
  nb::class_<DependencyEngine> engine(mxnet, "DependencyEngine",
                                      "Calls of a store that MXNet's engine starts.");
  engine
      .def(
          "__init__",
          [](DependencyEngine* self, const std::string& path, const Store& store) {
            new (self) DependencyEngine(path, store.opened("tutti.mxnet"));
          },
          arg("path"), arg("store"))
      .def("finish_at_exit", &DependencyEngine::finish_at_exit,
           nb::sig("def finish_at_exit(self) -> None"));
  add_call<Kind::pushpull>(engine, "pushpull");
  add_call<Kind::broadcast>(engine, "broadcast");
  add_call<Kind::push>(engine, "push");
  add_call<Kind::pull>(engine, "pull");
  mxnet.def(
      "memory_of", [](std::uintptr_t array) { return Library::memory_of(to_handle(array)); },
      arg("array"), nb::sig("def memory_of(array: int) -> int"),
      "Names the memory that an array, given by its handle, lies in.");
  mxnet.def(
      "failure", [](const std::string& text) { return to_exception(recall(text)); }, arg("text"),
      nb::sig("def failure(text: str) -> BaseException | None"),
      "The error of tutti that MXNet tells in these words; None when it is too long ago.");
}

}  // namespace tutti::python::mxnet
