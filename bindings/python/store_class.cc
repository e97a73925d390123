#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include "python/store.h"

namespace tutti::python {
namespace {

/// `out` is the same under another name.
nb::handle one_of(nb::handle outs, nb::handle out) {
  if (out.is_none()) return outs;
  if (!outs.is_none()) throw nb::type_error("outs and out are names of one argument; give one");
  return out;
}

Pending pushpull(Store& store, nb::handle key, nb::handle ins, nb::handle outs, int priority,
                 std::string_view op, nb::handle out) {
  return store.pushpull(key, ins, one_of(outs, out), priority, op);
}

using nb::arg;
using nb::kw_only;

constexpr const char* store_doc =
    R"(Named arrays exchanged between devices, processes and machines; `tutti.create` makes one.

A key is an int or a str, one kind in a store. A value is an array, or a list of one array for
each device of this process; a list of keys takes a list of values. Arrays are numpy arrays, or
others on the CPU that speak DLPack, C-contiguous and of dtype float16, bfloat16, float32,
float64, int8, uint8, int32 or int64. They are used in place: leave them alone until the call's
Pending is done. Their memory is kept that long.

Calls that return a Pending do not wait for other ranks. Errors that one rank can see are raised
at once; what ranks disagree about is raised by Pending.wait. A second call for a key in flight
raises DuplicateKeyError. priority: higher goes first. Thread-safe.

A store is a context manager that closes it in the end. When an exception leaves the block the store
stays open: if the program ends by it, with a status other than 0, the other ranks get PeerLostError
that names this one; who handles the exception closes the store, or drops it. (Where another package
has initialised MPI, such as mpi4py, its MPI_Finalize closes the store: they get AbortedError.)

Ctrl-C interrupts Pending.wait, barrier, join, close and tutti.create with KeyboardInterrupt; the
other methods do not wait for other ranks. What was interrupted goes on in the background: to the
other ranks this one has come.

Also accepted, from the design that this API comes from: `out=` for `outs=` of pushpull, and `Rank`
for `rank`.)";

constexpr const char* pushpull_doc = R"(Reduces `ins` over this process's devices and all ranks.

Gives the result to every array of `outs`; without `outs` to `ins`. op: 'sum', 'average', 'min' or
'max'; an average divides by the number of ranks. Collective: every rank calls it once for the
key, with arrays of the same dtype and shape, in any order among keys.)";

constexpr const char* broadcast_doc = R"(Gives the first array of rank `root_rank` to every array of
`value` on every rank. Collective. In stores of one process it also initialises the key.)";

constexpr const char* reduce_scatter_doc =
    R"(Reduces `ins` as pushpull does, and gives this rank its
shard: the elements count*rank//num_workers to count*(rank+1)//num_workers in row-major order.

outs: arrays of that many elements, of any shape. Collective.)";

constexpr const char* allgather_doc = R"(Puts the ranks' shards together in every array of `outs`.

ins: this rank's shard, the elements that reduce_scatter would give it. Collective. Ends in
AbortedError when a rank has joined.)";

constexpr const char* init_doc =
    R"(Stores a copy of the value. Raises InvalidArgumentError if the key
has one. Stores of one process only; with dist_sync_mpi UnsupportedError: use broadcast.)";

constexpr const char* push_doc =
    R"(Replaces the stored value by the sum (or op) of the devices' arrays.

Stores of one process only; with dist_sync_mpi UnsupportedError: use pushpull.)";

constexpr const char* pull_doc = R"(Copies the stored value to every array of `out`.

Stores of one process only; with dist_sync_mpi UnsupportedError: use pushpull.)";

constexpr const char* compression_doc = R"(The format in which float32 arrays travel between nodes:
'none', 'fp16' or 'bf16'. All ranks call it with the same value before the first array.)";

constexpr const char* join_doc =
    R"(For a rank that ran out of data: blocks until all ranks have joined.

Until then it contributes zeros to what the others reduce. Returns the last rank to join. Ctrl-C
interrupts it; this rank has joined all the same.)";

constexpr const char* allocate_doc = R"(A numpy array in memory that the ranks of a machine share.

It is exchanged without copies, and may outlive the store. Not collective. Blocks for 0.5 to 3 ms
a MiB, which nothing interrupts. Raises InternalError when there is not enough memory.)";

constexpr const char* close_doc = R"(Closes the store; a second time does nothing.

Blocks until the arrays that have begun to move are exchanged, in every thread that calls it. Other
calls that need this rank fail with AbortedError on the other ranks. Every other method then raises
AbortedError. Raises what ended the store, such as PeerLostError, if no other call has told it; so
does the end of a `with` block that no exception leaves. Ctrl-C interrupts the wait; the store goes
on closing in the background. A store that nothing refers to any more is closed, too, which nothing
interrupts.)";

void bind_collectives(nb::class_<Store>& store) {
  store.def("pushpull", &pushpull, arg("key"), arg("ins"), arg("outs") = nb::none(),
            arg("priority") = 0, kw_only(), arg("op") = "sum", arg("out") = nb::none(),
            nb::sig("def pushpull(self, key: Keys, ins: Values, outs: Values | None = None, "
                    "priority: int = 0, *, op: str = 'sum', out: Values | None = None) -> Pending"),
            pushpull_doc);
  store.def("broadcast", &Store::broadcast, arg("key"), arg("value"), arg("root_rank") = 0,
            arg("priority") = 0,
            nb::sig("def broadcast(self, key: Keys, value: Values, root_rank: int = 0, "
                    "priority: int = 0) -> Pending"),
            broadcast_doc);
  store.def("reduce_scatter", &Store::reduce_scatter, arg("key"), arg("ins"), arg("outs"),
            arg("priority") = 0, kw_only(), arg("op") = "sum",
            nb::sig("def reduce_scatter(self, key: Keys, ins: Values, outs: Values, "
                    "priority: int = 0, *, op: str = 'sum') -> Pending"),
            reduce_scatter_doc);
  store.def("allgather", &Store::allgather, arg("key"), arg("ins"), arg("outs"),
            arg("priority") = 0,
            nb::sig("def allgather(self, key: Keys, ins: Values, outs: Values, "
                    "priority: int = 0) -> Pending"),
            allgather_doc);
}

void bind_stored_values(nb::class_<Store>& store) {
  store.def("init", &Store::init, arg("key"), arg("value"),
            nb::sig("def init(self, key: Keys, value: Values) -> None"), init_doc);
  store.def("push", &Store::push, arg("key"), arg("value"), arg("priority") = 0, kw_only(),
            arg("op") = "sum",
            nb::sig("def push(self, key: Keys, value: Values, priority: int = 0, *, "
                    "op: str = 'sum') -> Pending"),
            push_doc);
  store.def("pull", &Store::pull, arg("key"), arg("out"), arg("priority") = 0,
            nb::sig("def pull(self, key: Keys, out: Values, priority: int = 0) -> Pending"),
            pull_doc);
  store.def("row_sparse_pull", &Store::row_sparse_pull, arg("key"), arg("out"), arg("row_ids"),
            nb::sig("def row_sparse_pull(self, key: Keys, out: Values, row_ids: Values) -> None"),
            "Copies those rows of the stored value. Raises UnsupportedError: no type has it yet.");
  store.def("set_optimizer", &Store::set_optimizer, arg("optimizer"),
            "Updates on the store. Raises UnsupportedError: no type has it yet; update locally.");
  store.def("save_optimizer_states", &Store::save_optimizer_states, arg("fname"),
            arg("dump_optimizer") = false,
            "To a file. Raises UnsupportedError: no type has an optimizer yet.");
  store.def("load_optimizer_states", &Store::load_optimizer_states, arg("fname"),
            "From a file. Raises UnsupportedError: no type has an optimizer yet.");
}

void bind_rest(nb::class_<Store>& store) {
  store.def_prop_ro("type", &Store::type, "The type asked for, lower-cased.");
  store.def_prop_ro("rank", &Store::rank, "This process's index; 0 in stores of one process.");
  store.def_prop_ro("Rank", &Store::rank, "The same as rank.");
  store.def_prop_ro("num_workers", &Store::num_workers, "The number of processes.");
  store.def_prop_ro("local_rank", &Store::local_rank,
                    "This process's index among those on its machine; 0 in stores of one process.");
  store.def_prop_ro("local_size", &Store::local_size, "The number of processes on this machine.");
  store.def_prop_ro("nodes", &Store::nodes, "The number of machines.");
  store.def("set_gradient_compression", &Store::set_gradient_compression, arg("kind"),
            compression_doc);
  store.def("barrier", &Store::barrier,
            "Blocks until every rank has called it. Does not wait for arrays in flight. Ctrl-C "
            "interrupts it; this rank has come all the same.");
  store.def("join", &Store::join, join_doc);
  store.def("allocate", &Store::allocate, arg("shape"), arg("dtype") = "float32",
            nb::sig("def allocate(self, shape: int | Sequence[int], dtype: DTypeLike = 'float32')"
                    " -> Array"),
            allocate_doc);
  store.def("counters", &Store::counters, nb::sig("def counters(self) -> Counters"),
            "What the store has done on this rank since create, and what it holds.");
  store.def(
      "choices", &Store::choices, nb::sig("def choices(self) -> list[Choice]"),
      "Sizes, limits and policies that the store uses, with where each comes from; for people. "
      "Empty in stores of one process.");
  store.def("close", &Store::close, close_doc);
  store.def("_require_open", &Store::require_open, arg("method"),
            "For the package's own methods: raises AbortedError when the store is closed.");
  store.def(
      "__enter__", [](nb::handle self) { return nb::borrow(self); },
      nb::sig("def __enter__(self) -> KVStore"));
  store.def(
      "__exit__",
      [](Store& self, nb::handle /*type*/, nb::handle raised, nb::handle /*traceback*/) {
        self.leave_block(raised);
      },
      arg("type").none(), arg("raised").none(), arg("traceback").none(),
      nb::sig("def __exit__(self, type: object, raised: object, traceback: object) -> None"));
}

}  // namespace

void bind_store(nb::module_& module) {
  // check_finite replaces methods of one object.
  nb::class_<Store> store(module, "KVStore", nb::dynamic_attr(), nb::is_weak_referenceable(),
                          store_doc);
  bind_collectives(store);
  bind_stored_values(store);
  bind_rest(store);
  module.def("create", &Store::create, arg("type"), arg("options"),
             nb::sig("def create(type: str, options: dict[str, object]) -> KVStore"));
  module.def("outlive_interpreter", &Store::outlive_interpreter,
             "At the end of the interpreter: leaves what is open to the end of the process.");
}

}  // namespace tutti::python
