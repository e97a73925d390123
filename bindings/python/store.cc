#include "python/store.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "python/finite.h"
#include "python/gil.h"
#include "python/interruptible.h"
#include "python/options.h"
#include "python/releases.h"
#include "tutti/info.h"

namespace tutti::python {
namespace {

/// The stores that are open, oldest first. Guarded by the GIL.
std::vector<Store*>& open_stores() {
  static std::vector<Store*> stores;
  return stores;
}

/// Those that are left open until the process exits, oldest first. Never destroyed. Guarded by the
/// GIL, and used by the exit handler.
std::vector<std::shared_ptr<KVStore>>& left_open() {
  static auto* const stores = new std::vector<std::shared_ptr<KVStore>>;
  return *stores;
}

/// What comes before those that are left open are closed.
std::function<void(int)>& last_call() {
  static auto* const call = new std::function<void(int)>;
  return *call;
}

/// As the library treats the end of a process, but with status 0 without a word: Python programs
/// keep stores in global variables.
void at_exit(int status, void* /*unused*/) {
  if (last_call()) last_call()(status);
  if (status != 0) return;
  // The newest first, as a program would that closes what it opened.
  while (!left_open().empty()) left_open().pop_back();
}

/// Whether the process ends with status 0 if nobody catches the exception.
bool ends_in_order(nb::handle raised) {
  if (raised.is_none()) return true;
  if (!nb::isinstance(raised, PyExc_SystemExit)) return false;
  const nb::object code = raised.attr("code");
  return code.is_none() || code.equal(nb::int_(0));
}

}  // namespace

Store::Store(const std::string& type, const nb::dict& options, bool check_finite)
    : Store(interruptible([type, chosen = to_options(options)]() -> std::shared_ptr<KVStore> {
              return KVStore::create(type, chosen);
            }),
            check_finite) {}

Store::Store(std::shared_ptr<KVStore> store, bool check_finite)
    : store_(std::move(store)),
      check_finite_(check_finite),
      type_(store_->type()),
      rank_(store_->rank()),
      num_workers_(store_->num_workers()),
      local_rank_(store_->local_rank()),
      local_size_(store_->local_size()),
      nodes_(store_->nodes()) {
  open_stores().push_back(this);
}

Store::~Store() {
  drop();
}

std::shared_ptr<KVStore> Store::opened(std::string_view method) const {
  drop_released();
  if (store_ != nullptr && !closing_) return store_;
  throw Error(ErrorCode::aborted,
              std::string(method) + " of a store that is closed; tutti.create makes another");
}

template <typename Call>
auto Store::run(std::string_view method, const Call& call) {
  std::shared_ptr<KVStore> store = opened(method);
  const WithoutGil unlocked;
  // Without the GIL also where this thread is the last to have the store, and closes it.
  const std::shared_ptr<KVStore> mine = std::move(store);
  return call(*mine);
}

template <typename Call>
auto Store::run_interruptible(std::string_view method, Call call) {
  return interruptible([store = opened(method), call = std::move(call)]() mutable {
    // Given back before the call has returned: this may be the last to have the store.
    const std::shared_ptr<KVStore> mine = std::move(store);
    return call(*mine);
  });
}

void Store::check(std::string_view method, const Arguments& arguments,
                  std::span<const Values> values, bool first_alone) const {
  if (check_finite_) refuse_infinite(method, rank_, arguments.keys(), values, first_alone);
}

Arguments Store::arguments_of(std::string_view method, nb::handle key) const {
  require_open(method);
  return Arguments(key);
}

Pending Store::pushpull(nb::handle key, nb::handle ins, nb::handle outs, nb::handle priority,
                        nb::handle op) {
  Arguments arguments = arguments_of("pushpull", key);
  const bool in_place = outs.is_none();
  const auto from = arguments.values(ins, in_place ? Access::write : Access::read);
  const auto to = in_place ? std::vector<Values>() : arguments.values(outs, Access::write);
  const CallOptions options{.priority = to_int("priority", priority), .op = to_reduce_op(op)};
  return run("pushpull", [&](KVStore& store) {
    check("pushpull", arguments, from);
    return store.pushpull(arguments.keys(), from, in_place ? from : to, options);
  });
}

Pending Store::broadcast(nb::handle key, nb::handle value, nb::handle root_rank,
                         nb::handle priority) {
  Arguments arguments = arguments_of("broadcast", key);
  const auto values = arguments.values(value, Access::write);
  const int root = to_int("root_rank", root_rank);
  const CallOptions options{.priority = to_int("priority", priority)};
  return run("broadcast", [&](KVStore& store) {
    if (root == rank_) check("broadcast", arguments, values, true);
    return store.broadcast(arguments.keys(), values, root, options);
  });
}

Pending Store::reduce_scatter(nb::handle key, nb::handle ins, nb::handle outs, nb::handle priority,
                              nb::handle op) {
  Arguments arguments = arguments_of("reduce_scatter", key);
  const auto from = arguments.values(ins, Access::read);
  const auto to = arguments.values(outs, Access::write);
  const CallOptions options{.priority = to_int("priority", priority), .op = to_reduce_op(op)};
  return run("reduce_scatter", [&](KVStore& store) {
    check("reduce_scatter", arguments, from);
    return store.reduce_scatter(arguments.keys(), from, to, options);
  });
}

Pending Store::allgather(nb::handle key, nb::handle ins, nb::handle outs, nb::handle priority) {
  Arguments arguments = arguments_of("allgather", key);
  const auto from = arguments.values(ins, Access::read);
  const auto to = arguments.values(outs, Access::write);
  const CallOptions options{.priority = to_int("priority", priority)};
  return run("allgather", [&](KVStore& store) {
    check("allgather", arguments, from, true);
    return store.allgather(arguments.keys(), from, to, options);
  });
}

void Store::init(nb::handle key, nb::handle value) {
  Arguments arguments = arguments_of("init", key);
  auto values = arguments.values(value, Access::read);
  run("init", [&](KVStore&) { check("init", arguments, values); });
  run_interruptible("init", [keys = arguments.keys(), values = std::move(values)](KVStore& store) {
    store.init(keys, values);
  });
}

Pending Store::push(nb::handle key, nb::handle value, nb::handle priority, nb::handle op) {
  Arguments arguments = arguments_of("push", key);
  const auto values = arguments.values(value, Access::read);
  const CallOptions options{.priority = to_int("priority", priority), .op = to_reduce_op(op)};
  return run("push", [&](KVStore& store) {
    check("push", arguments, values);
    return store.push(arguments.keys(), values, options);
  });
}

Pending Store::pull(nb::handle key, nb::handle out, nb::handle priority) {
  Arguments arguments = arguments_of("pull", key);
  const auto outs = arguments.values(out, Access::write);
  const CallOptions options{.priority = to_int("priority", priority)};
  return run("pull", [&](KVStore& store) { return store.pull(arguments.keys(), outs, options); });
}

void Store::row_sparse_pull(nb::handle key, nb::handle out, nb::handle row_ids) {
  Arguments arguments = arguments_of("row_sparse_pull", key);
  auto outs = arguments.values(out, Access::write);
  std::vector<Tensor> rows;
  for (const Values& each : arguments.values(row_ids, Access::read)) {
    rows.insert(rows.end(), each.begin(), each.end());
  }
  run_interruptible("row_sparse_pull",
                    [keys = arguments.keys(), outs = std::move(outs), rows = std::move(rows)](
                        KVStore& store) { store.row_sparse_pull(keys, outs, rows); });
}

void Store::set_optimizer(std::string_view name, const nb::dict& parameters,
                          const nb::dict& factors) {
  Optimizer optimizer{.name = std::string(name)};
  for (const auto& [parameter, value] : parameters) {
    optimizer.parameters[nb::cast<std::string>(parameter)] = nb::cast<double>(value);
  }
  for (const auto& [key, of_key] : factors) {
    optimizer.factors[to_key(key)] = {.learning_rate = nb::cast<double>(of_key[0]),
                                      .wd = nb::cast<double>(of_key[1])};
  }
  run_interruptible("set_optimizer", [optimizer = std::move(optimizer)](KVStore& store) {
    store.set_optimizer(optimizer);
  });
}

void Store::save_optimizer_states(const std::string& fname, bool dump_optimizer) {
  run_interruptible("save_optimizer_states", [fname, dump_optimizer](KVStore& store) {
    store.save_optimizer_states(fname, dump_optimizer);
  });
}

void Store::load_optimizer_states(const std::string& fname) {
  run_interruptible("load_optimizer_states",
                    [fname](KVStore& store) { store.load_optimizer_states(fname); });
}

void Store::set_gradient_compression(std::string_view kind, double threshold) {
  run_interruptible("set_gradient_compression",
                    [kind = std::string(kind), threshold](KVStore& store) {
                      store.set_gradient_compression(kind, threshold);
                    });
}

int Store::num_dead_node() {
  return run("num_dead_node", [](KVStore& store) { return store.num_dead_node(); });
}

void Store::barrier() {
  run_interruptible("barrier", [](KVStore& store) { store.barrier(); });
}

int Store::join() {
  return run_interruptible("join", [](KVStore& store) { return store.join(); });
}

nb::object Store::allocate(const std::vector<std::int64_t>& shape, std::string_view dtype) {
  const Shape dims{std::span<const std::int64_t>(shape)};
  const DType type = dtype_named(dtype);
  return to_numpy(run("allocate", [&](KVStore& store) { return store.allocate(dims, type); }));
}

nb::object Store::counters() {
  const Counters all = run("counters", [](KVStore& store) { return store.counters(); });
  return nb::module_::import_("tutti.types")
      .attr("Counters")(all.tensors_reduced, all.bytes_reduced, all.tensors_broadcast,
                        all.bytes_broadcast, all.tensors_gathered, all.bytes_gathered, all.batches,
                        all.control_messages, all.bytes_between_nodes, all.nodes, all.buffer_bytes,
                        all.allocated_bytes, all.allocated_peak_bytes);
}

nb::object Store::choices() {
  const nb::object choice = nb::module_::import_("tutti.types").attr("Choice");
  nb::list all;
  for (const Choice& one : run("choices", [](KVStore& store) { return store.choices(); })) {
    all.append(choice(one.name, one.value, one.origin));
  }
  return all;
}

void Store::drop() {
  std::erase(open_stores(), this);
  {
    const WithoutGil unlocked;
    store_.reset();
  }
  drop_released();
}

void Store::close() {
  if (store_ == nullptr) return;
  // The store is kept until it is closed, so that another thread's close waits, too.
  closing_ = true;
  try {
    interruptible([store = store_] { store->close(); });
  } catch (const Error&) {
    drop();
    throw;
  }
  drop();
}

void Store::leave_block(nb::handle raised) {
  if (raised.is_none()) {
    close();
  } else if (ends_in_order(raised)) {
    // What goes wrong must not hide what is raised: the process ends with another status.
    interruptible([last = std::exchange(store_, nullptr)]() mutable { last.reset(); });
    drop();
  } else if (store_ != nullptr && nb::isinstance(raised, PyExc_SystemExit)) {
    // Python drops what this exception refers to before it exits, and with that the store.
    left_open().push_back(store_);
  }
}

void Store::call_last(std::function<void(int)> call) {
  last_call() = std::move(call);
}

void Store::end_process(int status) {
  if (!left_open().empty()) {
    fmt::print(stderr,
               "tutti[rank {}] error: a store was still open when the process ended with status "
               "{}: it is left as it is, and to the other ranks this one is lost\n",
               left_open().back()->rank(), status);
  }
  std::fflush(nullptr);
  ::_exit(status);
}

void Store::outlive_interpreter() {
  keep_gil_until_the_end();
  stop_dropping();
  for (Store* const store : std::exchange(open_stores(), {})) {
    left_open().push_back(std::move(store->store_));
  }
  // As late as can be: what is registered last is called first, before the library's own handler,
  // which finds nothing open then, and before what threads that still compute have made of static
  // objects is destroyed.
  if (Py_AtExit([] { ::on_exit(at_exit, nullptr); }) != 0) ::on_exit(at_exit, nullptr);
}

}  // namespace tutti::python
