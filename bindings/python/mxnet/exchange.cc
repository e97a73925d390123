#include "python/mxnet/exchange.h"

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

using Kind = Engine::Kind;

/// The engine's operations that exchange something now, until the program abandons them.
class UnderWay {
 public:
  /// False if they are abandoned already.
  bool add(const void* exchange, const OnComplete& done) {
    const std::lock_guard lock(mutex_);
    if (!abandoned_) exchanges_.emplace(exchange, done);
    return !abandoned_;
  }

  /// Whether the exchange may say that it is done: nobody else has.
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
  mutable std::mutex mutex_;
  bool abandoned_ = false;                       ///< guarded by mutex_
  std::map<const void*, OnComplete> exchanges_;  ///< guarded by mutex_
};

/// Never destroyed: the engine's threads use it until the process ends.
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
      Error(ErrorCode::aborted, "this program ends with an error, and waits for no exchange"));
}

/// A call while the engine has it.
class Exchange {
 public:
  Exchange(std::shared_ptr<const Library> library, std::weak_ptr<KVStore> store, Engine::Call call,
           Kind kind)
      : library_(std::move(library)),
        store_(std::move(store)),
        key_(std::move(call.key)),
        priority_(call.priority),
        kind_(kind) {
    arrays_.reserve(call.arrays.size());
    for (const Handle array : call.arrays) arrays_.push_back(library_->share(array));
  }
  ~Exchange() {
    for (const Handle array : arrays_) library_->free(array);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// On a thread of the engine: the arrays are this call's until `done` is called.
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

  /// When the engine no longer needs it. The store may still write into the arrays of a call that
  /// was abandoned: these stay until the process is gone.
  static void drop(Exchange* exchange) {
    if (!under_way().abandoned()) delete exchange;
  }

 private:
  Pending submit() {
    const std::shared_ptr<KVStore> store = store_.lock();
    if (store == nullptr)
      throw Error(ErrorCode::aborted,
                  "the store that key " + key_.describe() + " belongs to is closed");
    std::vector<Tensor> values;
    for (const Handle array : arrays_) {
      memory_.push_back(library_->memory(array));
      values.push_back(memory_.back().tensor());
    }
    if (kind_ == Kind::broadcast) return store->broadcast(key_, values, 0, {.priority = priority_});
    return store->pushpull(key_, values, values, {.priority = priority_});
  }

  const std::shared_ptr<const Library> library_;
  const std::weak_ptr<KVStore> store_;
  const Key key_;
  const int priority_;
  const Kind kind_;
  std::vector<Handle> arrays_;
  std::vector<Memory> memory_;
};

void run(void* /*context*/, void* on_complete, void* exchange) {
  static_cast<Exchange*>(exchange)->start(*static_cast<const OnComplete*>(on_complete));
}

void destroy(void* exchange) {
  Exchange::drop(static_cast<Exchange*>(exchange));
}

}  // namespace

Engine::Engine(const std::string& path, std::shared_ptr<KVStore> store)
    : library_(std::make_shared<const Library>(path)), store_(std::move(store)) {}

void Engine::pushpull(Call call) {
  push(std::move(call), Kind::pushpull);
}

void Engine::broadcast(Call call) {
  push(std::move(call), Kind::broadcast);
}

void Engine::end_at_exit() const {
  Store::call_last([library = library_, owner = ::getpid()](int status) {
    if (::getpid() != owner) return;  // In a forked child nothing goes on.
    if (status == 0) library->finish();
    for (const auto& [exchange, done] : under_way().abandon()) end(done, program_ends());
    library->shut_down();
  });
}

void Engine::push(Call call, Kind kind) {
  std::vector<Handle> written = call.arrays;
  written.push_back(call.turn);
  const int priority = call.priority;
  auto exchange = std::make_unique<Exchange>(library_, store_, std::move(call), kind);
  // The engine destroys it, also where it refuses the operation.
  library_->push({run, exchange.release(), destroy, priority, "tutti"}, written);
}

namespace {

const std::string parameters =
    "(self, key: int | str, arrays: list[int], turn: int, priority: int) -> None";

Handle to_handle(std::uintptr_t address) {
  return reinterpret_cast<Handle>(address);
}

template <auto method>
void exchange(Engine& engine, nb::handle key, const std::vector<std::uintptr_t>& arrays,
              std::uintptr_t turn, int priority) {
  Engine::Call call{Arguments(key).keys().front(), {}, to_handle(turn), priority};
  for (const std::uintptr_t array : arrays) call.arrays.push_back(to_handle(array));
  const WithoutGil unlocked;
  (engine.*method)(std::move(call));
}

}  // namespace

void bind_mxnet(nb::module_& module) {
  using nb::arg;
  nb::module_ mxnet = module.def_submodule("mxnet", "What tutti.mxnet is made of.");
  nb::class_<Engine>(mxnet, "Engine", "Calls of a store that MXNet's engine starts.")
      .def(
          "__init__",
          [](Engine* engine, const std::string& path, const Store& store) {
            new (engine) Engine(path, store.opened("tutti.mxnet"));
          },
          arg("path"), arg("store"))
      .def("pushpull", &exchange<&Engine::pushpull>, arg("key"), arg("arrays"), arg("turn"),
           arg("priority"), nb::sig(("def pushpull" + parameters).c_str()))
      .def("broadcast", &exchange<&Engine::broadcast>, arg("key"), arg("arrays"), arg("turn"),
           arg("priority"), nb::sig(("def broadcast" + parameters).c_str()))
      .def("end_at_exit", &Engine::end_at_exit, nb::sig("def end_at_exit(self) -> None"));
  mxnet.def(
      "failure", [](const std::string& text) { return to_exception(recall(text)); }, arg("text"),
      nb::sig("def failure(text: str) -> BaseException | None"),
      "The error of tutti that MXNet tells in these words; None when it is too long ago.");
}

}  // namespace tutti::python::mxnet
