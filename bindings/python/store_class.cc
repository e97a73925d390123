#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "python/store.h"

namespace tutti::python {
namespace {

using nb::arg;

/// The store itself refuses a wrong object, even None.
auto any(const char* name) {
  return arg(name).none();
}

/// `tutti.KVStore` adds the methods that users call, with their names, defaults and documentation.
constexpr const char* store_doc = "What tutti.KVStore is made of.";

void bind_collectives(nb::class_<Store>& store) {
  store.def("_pushpull", &Store::pushpull, any("key"), any("ins"), any("outs"), any("priority"),
            any("op"),
            nb::sig("def _pushpull(self, key: Keys, ins: Values, outs: Values | None, "
                    "priority: SupportsIndex, op: str) -> Pending"));
  store.def("_allreduce", &Store::allreduce, any("key"), any("ins"), any("outs"), any("op"),
            nb::sig("def _allreduce(self, key: Keys, ins: Values, outs: Values | None, op: str) "
                    "-> None"));
  store.def("_bind", &Store::bind, any("key"), any("ins"), any("outs"), any("priority"), any("op"),
            nb::sig("def _bind(self, key: Keys, ins: Values, outs: Values | None, "
                    "priority: SupportsIndex, op: str) -> Bound"));
  store.def("_broadcast", &Store::broadcast, any("key"), any("value"), any("root_rank"),
            any("priority"),
            nb::sig("def _broadcast(self, key: Keys, value: Values, root_rank: SupportsIndex, "
                    "priority: SupportsIndex) -> Pending"));
  store.def("_reduce_scatter", &Store::reduce_scatter, any("key"), any("ins"), any("outs"),
            any("priority"), any("op"),
            nb::sig("def _reduce_scatter(self, key: Keys, ins: Values, outs: Values, "
                    "priority: SupportsIndex, op: str) -> Pending"));
  store.def("_allgather", &Store::allgather, any("key"), any("ins"), any("outs"), any("priority"),
            nb::sig("def _allgather(self, key: Keys, ins: Values, outs: Values, "
                    "priority: SupportsIndex) -> Pending"));
  store.def("_all_to_all", &Store::all_to_all, any("key"), any("ins"), any("outs"), arg("counts"),
            any("priority"),
            nb::sig("def _all_to_all(self, key: Key, ins: Array, outs: Array, "
                    "counts: Sequence[int], priority: SupportsIndex) -> Pending"));
}

void bind_peer_calls(nb::module_& module, nb::class_<Store>& store) {
  nb::class_<Source>(module, "Source", "Whose array a recv took.")
      .def("rank", [](const Source& source) { return *source.rank; });
  store.def("_send", &Store::send, any("value"), any("to_rank"), any("tag"),
            nb::sig("def _send(self, value: Array, to_rank: SupportsIndex, tag: SupportsIndex) -> "
                    "Pending"));
  store.def("_recv", &Store::recv, any("value"), any("from_rank"), any("tag"),
            nb::sig("def _recv(self, value: Array, from_rank: SupportsIndex | None, "
                    "tag: SupportsIndex) -> tuple[Pending, Source]"));
}

void bind_stored_values(nb::class_<Store>& store) {
  store.def("_init", &Store::init, any("key"), any("value"),
            nb::sig("def _init(self, key: Keys, value: Values) -> None"));
  store.def("_push", &Store::push, any("key"), any("value"), any("priority"), any("op"),
            nb::sig("def _push(self, key: Keys, value: Values, priority: SupportsIndex, op: str) "
                    "-> Pending"));
  store.def("_pull", &Store::pull, any("key"), any("out"), any("priority"),
            nb::sig("def _pull(self, key: Keys, out: Values, priority: SupportsIndex) -> Pending"));
  store.def("_row_sparse_pull", &Store::row_sparse_pull, any("key"), any("out"), any("row_ids"),
            nb::sig("def _row_sparse_pull(self, key: Keys, out: Values, row_ids: Values) -> None"));
  store.def("_set_optimizer", &Store::set_optimizer, arg("name"), arg("parameters"), arg("factors"),
            nb::sig("def _set_optimizer(self, name: str, parameters: dict[str, float], "
                    "factors: dict[Key, tuple[float, float]]) -> None"));
  store.def("_save_optimizer_states", &Store::save_optimizer_states, arg("path"),
            arg("dump_optimizer"));
  store.def("_load_optimizer_states", &Store::load_optimizer_states, arg("path"));
}

void bind_properties(nb::class_<Store>& store) {
  store.def_prop_ro("type", &Store::type, "The type asked for, lower-cased.");
  store.def_prop_ro("rank", &Store::rank, "This process's index; 0 in stores of one process.");
  store.def_prop_ro("Rank", &Store::rank, "The same as rank.");
  store.def_prop_ro("num_workers", &Store::num_workers, "The number of processes.");
  store.def_prop_ro(
      "local_rank", &Store::local_rank,
      "This process's index among those on its machine, with servers among the workers "
      "there; 0 in stores of one process.");
  store.def_prop_ro("local_size", &Store::local_size, "The number of processes on this machine.");
  store.def_prop_ro("nodes", &Store::nodes, "The number of machines.");
  store.def_prop_ro("_is_closed", &Store::is_closed);
}

void bind_rest(nb::class_<Store>& store) {
  store.def("_set_gradient_compression", &Store::set_gradient_compression, arg("kind"),
            arg("threshold"));
  store.def("_num_dead_node", &Store::num_dead_node);
  store.def("_barrier", &Store::barrier);
  store.def("_join", &Store::join);
  store.def("_allocate", &Store::allocate, arg("shape"), arg("dtype"),
            nb::sig("def _allocate(self, shape: Sequence[int], dtype: str) -> Array"),
            "The array's bytes as uint8.");
  store.def("_allocate_on", &Store::allocate_on, arg("shape"), arg("dtype"), arg("gpu"),
            nb::sig("def _allocate_on(self, shape: Sequence[int], dtype: str, gpu: int) -> "
                    "GpuArray"));
  store.def("_counters", &Store::counters, nb::sig("def _counters(self) -> Counters"));
  store.def("_choices", &Store::choices, nb::sig("def _choices(self) -> list[Choice]"));
  store.def("_close", &Store::close);
  store.def("_require_open", &Store::require_open, arg("method"),
            "Raises AbortedError when the store is closed.");
  store.def("_leave_block", &Store::leave_block, arg("raised").none(),
            nb::sig("def _leave_block(self, raised: BaseException | None) -> None"));
}

}  // namespace

void bind_store(nb::module_& module) {
  nb::class_<Store> store(module, "Store", store_doc);
  store.def(nb::init<const std::string&, const nb::dict&, bool>(), arg("type"), arg("options"),
            arg("check_finite"),
            nb::sig("def __init__(self, type: str, options: dict[str, Any], check_finite: bool) "
                    "-> None"));
  bind_properties(store);
  bind_collectives(store);
  bind_peer_calls(module, store);
  bind_stored_values(store);
  bind_rest(store);
  module.def("outlive_interpreter", &Store::outlive_interpreter,
             "At the end of the interpreter: leaves what is open to the end of the process.");
}

}  // namespace tutti::python
