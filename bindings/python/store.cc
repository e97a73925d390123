#include "python/store.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "python/finite.h"
#include "python/gil.h"
#include "python/interruptible.h"
#include "python/options.h"
#include "python/pending.h"
#include "python/releases.h"
#include "tutti/info.h"

namespace tutti::python {

std::vector<Store*>& Store::open_stores() {
  static std::vector<Store*> stores;
  return stores;
}

namespace {

/// Throws TypeError unless there is one key, with one array to read and one to write.
void require_one(std::string_view method, const Arguments& arguments, std::span<const Values> ins,
                 std::span<const Values> outs) {
  if (arguments.keys().size() == 1 && ins[0].size() == 1 && outs[0].size() == 1) return;
  throw nb::type_error(
      (std::string(method) + " takes one key, one array to send and one to receive").c_str());
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
  // If this thread has the last reference to the store, it closes the store. That must happen
  // without the GIL.
  const std::shared_ptr<KVStore> mine = std::move(store);
  return call(*mine);
}

template <typename Call>
auto Store::run_interruptible(std::string_view method, Call call) {
  return interruptible([store = opened(method), call = std::move(call)]() mutable {
    // The reference is given up before the call has returned, because it may be the last one to the
    // store.
    const std::shared_ptr<KVStore> mine = std::move(store);
    return call(*mine);
  });
}

template <typename Call>
void Store::run_beside(std::span<const Values> values, std::string_view method, Call call) {
  const auto is_there = [](const Tensor& tensor) {
    return tensor.device().kind == Device::Kind::gpu;
  };
  const bool on_gpu = std::ranges::any_of(
      values, [&](const Values& each) { return std::ranges::any_of(each, is_there); });
  if (on_gpu) return run(method, call);
  run_interruptible(method, std::move(call));
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

void Store::allreduce(nb::handle key, nb::handle ins, nb::handle outs, nb::handle op) {
  Arguments arguments = arguments_of("allreduce", key);
  const bool in_place = outs.is_none();
  const auto from = arguments.values(ins, in_place ? Access::write : Access::read);
  const auto to = in_place ? std::vector<Values>() : arguments.values(outs, Access::write);
  const CallOptions options{.op = to_reduce_op(op)};
  const Pending pending = run("allreduce", [&](KVStore& store) {
    check("allreduce", arguments, from);
    return store.allreduce_for(signal_delay, arguments.keys(), from, in_place ? from : to, options);
  });
  wait(pending, nb::none());
}

BoundArrays Store::bind(nb::handle key, nb::handle ins, nb::handle outs, nb::handle priority,
                        nb::handle op) {
  Arguments arguments = arguments_of("bind", key);
  const bool in_place = outs.is_none();
  auto from = arguments.values(ins, in_place ? Access::write : Access::read);
  const auto to = in_place ? from : arguments.values(outs, Access::write);
  const CallOptions options{.priority = to_int("priority", priority), .op = to_reduce_op(op)};
  Bound bound =
      run("bind", [&](KVStore& store) { return store.bind(arguments.keys(), from, to, options); });
  if (!check_finite_) return {std::move(bound), arguments.arrays(), [] {}};
  return {std::move(bound), arguments.arrays(),
          [rank = rank_, keys = arguments.keys(), from = std::move(from)] {
            refuse_infinite("bound pushpull", rank, keys, from, false);
          }};
}

Pending Store::broadcast(nb::handle key, nb::handle value, nb::handle root_rank,
                         nb::handle priority) {
  Arguments arguments = arguments_of("broadcast", key);
  const auto values = arguments.values(value, Access::write, Elements::moved);
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
  const auto from = arguments.values(ins, Access::read, Elements::moved);
  const auto to = arguments.values(outs, Access::write, Elements::moved);
  const CallOptions options{.priority = to_int("priority", priority)};
  return run("allgather", [&](KVStore& store) {
    check("allgather", arguments, from, true);
    return store.allgather(arguments.keys(), from, to, options);
  });
}

Pending Store::all_to_all(nb::handle key, nb::handle ins, nb::handle outs,
                          const std::vector<std::size_t>& counts, nb::handle priority) {
  Arguments arguments = arguments_of("all_to_all", key);
  const auto from = arguments.values(ins, Access::read, Elements::moved);
  const auto to = arguments.values(outs, Access::write, Elements::moved);
  require_one("all_to_all", arguments, from, to);
  const CallOptions options{.priority = to_int("priority", priority)};
  return run("all_to_all", [&](KVStore& store) {
    check("all_to_all", arguments, from, true);
    return store.all_to_all(arguments.keys().front(), from[0][0], to[0][0], counts, options);
  });
}

Pending Store::send(nb::handle value, nb::handle to_rank, nb::handle tag) {
  require_open("send");
  const Tensor tensor = to_tensor(value, Access::read, Elements::moved, 0, make_arrays());
  const int to = to_int("to_rank", to_rank);
  const int tagged = to_int("tag", tag);
  return run("send", [&](KVStore& store) { return store.send(tensor, to, tagged); });
}

std::pair<Pending, Source> Store::recv(nb::handle value, nb::handle from_rank, nb::handle tag) {
  require_open("recv");
  const std::shared_ptr<HeldArrays> arrays = make_arrays();
  const auto source = std::make_shared<int>(any_rank);
  // The object lives as long as the call.
  arrays->source = source;
  const Tensor tensor = to_tensor(value, Access::write, Elements::moved, 0, arrays);
  const int from = from_rank.is_none() ? any_rank : to_int("from_rank", from_rank);
  const int tagged = to_int("tag", tag);
  Pending pending =
      run("recv", [&](KVStore& store) { return store.recv(tensor, from, tagged, source.get()); });
  return {std::move(pending), {source}};
}

void Store::init(nb::handle key, nb::handle value) {
  Arguments arguments = arguments_of("init", key);
  const auto values = arguments.values(value, Access::read, Elements::moved);
  run("init", [&](KVStore&) { check("init", arguments, values); });
  run_beside(values, "init",
             [keys = arguments.keys(), values](KVStore& store) { store.init(keys, values); });
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
  const auto outs = arguments.values(out, Access::write, Elements::moved);
  const CallOptions options{.priority = to_int("priority", priority)};
  return run("pull", [&](KVStore& store) { return store.pull(arguments.keys(), outs, options); });
}

void Store::row_sparse_pull(nb::handle key, nb::handle out, nb::handle row_ids) {
  Arguments arguments = arguments_of("row_sparse_pull", key);
  const auto outs = arguments.values(out, Access::write);
  std::vector<Tensor> rows;
  for (const Values& each : arguments.values(row_ids, Access::read)) {
    rows.insert(rows.end(), each.begin(), each.end());
  }
  run_beside(outs, "row_sparse_pull",
             [keys = arguments.keys(), outs, rows = std::move(rows)](KVStore& store) {
               store.row_sparse_pull(keys, outs, rows);
             });
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

GpuArray Store::allocate_on(const std::vector<std::int64_t>& shape, std::string_view dtype,
                            int gpu) {
  const Shape dims{std::span<const std::int64_t>(shape)};
  const DType type = dtype_named(dtype);
  return {run("allocate", [&](KVStore& store) {
    return store.allocate(dims, type, {Device::Kind::gpu, gpu});
  })};
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
  // The store is kept until it is closed, so that the close of another thread waits, too.
  closing_ = true;
  try {
    interruptible([store = store_] { store->close(); });
  } catch (const Error&) {
    drop();
    throw;
  }
  drop();
}

}  // namespace tutti::python
