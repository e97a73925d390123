#include <memory>
#include <string>

#include "guard.h"
#include "handles.h"
#include "words.h"

using tutti::c::answered;
using tutti::c::at;
using tutti::c::call_options_of;
using tutti::c::counts_of;
using tutti::c::guarded;
using tutti::c::keys_of;
using tutti::c::optimizer_of;
using tutti::c::tensors_of;
using tutti::c::values_of;

namespace {

tutti::KVStore& store_of(tutti_store* store, const char* function) {
  return *at(store, function, "store").store;
}

int number_of(const tutti_store* store, const char* function,
              int (tutti::KVStore::*number)() const) {
  return answered(-1, [&] { return (*at(store, function, "store").store.*number)(); });
}

/// Runs a call that goes on in the background, and returns its outcome to the caller.
template <typename Call>
int submit(tutti_store* store, const char* function, tutti_pending** pending, Call&& call) {
  return guarded([&] {
    // This is made first, because nothing may fail once the call is submitted.
    auto outcome = std::make_unique<tutti_pending>();
    outcome->pending = call(store_of(store, function), function);
    if (pending != nullptr) *pending = outcome.release();
  });
}

int allocate(tutti_store* store, const char* function, const int64_t* dims, size_t rank, int dtype,
             tutti_device device, tutti_tensor** tensor) {
  return guarded([&] {
    tutti_tensor*& made = at(tensor, function, "tensor");
    made = new tutti_tensor{store_of(store, function)
                                .allocate(tutti::c::shape_of(dims, rank, function),
                                          tutti::c::dtype_of(dtype), tutti::c::device_of(device))};
  });
}

}  // namespace

int tutti_store_create(const char* type, const tutti_options* options, tutti_store** store) {
  return guarded([&] {
    constexpr const char* function = "tutti_store_create";
    tutti_store*& made = at(store, function, "store");
    const std::string_view name = &at(type, function, "type");
    auto handle = std::make_unique<tutti_store>();
    handle->store = options == nullptr ? tutti::KVStore::create(name)
                                       : tutti::KVStore::create(name, options->options);
    made = handle.release();
  });
}

int tutti_store_close(tutti_store* store) {
  return guarded([&] { store_of(store, "tutti_store_close").close(); });
}

void tutti_store_destroy(tutti_store* store) {
  delete store;
}

const char* tutti_store_type(const tutti_store* store) {
  return answered("", [&] { return at(store, "tutti_store_type", "store").store->type().c_str(); });
}

int tutti_store_rank(const tutti_store* store) {
  return number_of(store, "tutti_store_rank", &tutti::KVStore::rank);
}

int tutti_store_num_workers(const tutti_store* store) {
  return number_of(store, "tutti_store_num_workers", &tutti::KVStore::num_workers);
}

int tutti_store_local_rank(const tutti_store* store) {
  return number_of(store, "tutti_store_local_rank", &tutti::KVStore::local_rank);
}

int tutti_store_local_size(const tutti_store* store) {
  return number_of(store, "tutti_store_local_size", &tutti::KVStore::local_size);
}

int tutti_store_nodes(const tutti_store* store) {
  return number_of(store, "tutti_store_nodes", &tutti::KVStore::nodes);
}

int tutti_store_pushpull(tutti_store* store, size_t count, const tutti_key* keys,
                         const tutti_values* ins, const tutti_values* outs,
                         const tutti_call_options* options, tutti_pending** pending) {
  return submit(
      store, "tutti_store_pushpull", pending, [&](tutti::KVStore& kv, const char* function) {
        return kv.pushpull(keys_of(keys, count, function), values_of(ins, count, function, "ins"),
                           values_of(outs, count, function, "outs"), call_options_of(options));
      });
}

int tutti_store_allreduce(tutti_store* store, size_t count, const tutti_key* keys,
                          const tutti_values* ins, const tutti_values* outs,
                          const tutti_call_options* options) {
  return guarded([&, function = "tutti_store_allreduce"] {
    store_of(store, function)
        .allreduce(keys_of(keys, count, function), values_of(ins, count, function, "ins"),
                   values_of(outs, count, function, "outs"), call_options_of(options));
  });
}

int tutti_store_bind(tutti_store* store, size_t count, const tutti_key* keys,
                     const tutti_values* ins, const tutti_values* outs,
                     const tutti_call_options* options, tutti_bound** bound) {
  return guarded([&, function = "tutti_store_bind"] {
    tutti_bound*& made = at(bound, function, "bound");
    made = new tutti_bound{
        store_of(store, function)
            .bind(keys_of(keys, count, function), values_of(ins, count, function, "ins"),
                  values_of(outs, count, function, "outs"), call_options_of(options))};
  });
}

int tutti_store_broadcast(tutti_store* store, size_t count, const tutti_key* keys,
                          const tutti_values* values, int root_rank,
                          const tutti_call_options* options, tutti_pending** pending) {
  return submit(store, "tutti_store_broadcast", pending,
                [&](tutti::KVStore& kv, const char* function) {
                  return kv.broadcast(keys_of(keys, count, function),
                                      values_of(values, count, function, "values"), root_rank,
                                      call_options_of(options));
                });
}

int tutti_store_reduce_scatter(tutti_store* store, size_t count, const tutti_key* keys,
                               const tutti_values* ins, const tutti_values* outs,
                               const tutti_call_options* options, tutti_pending** pending) {
  return submit(store, "tutti_store_reduce_scatter", pending,
                [&](tutti::KVStore& kv, const char* function) {
                  return kv.reduce_scatter(
                      keys_of(keys, count, function), values_of(ins, count, function, "ins"),
                      values_of(outs, count, function, "outs"), call_options_of(options));
                });
}

int tutti_store_allgather(tutti_store* store, size_t count, const tutti_key* keys,
                          const tutti_values* ins, const tutti_values* outs,
                          const tutti_call_options* options, tutti_pending** pending) {
  return submit(
      store, "tutti_store_allgather", pending, [&](tutti::KVStore& kv, const char* function) {
        return kv.allgather(keys_of(keys, count, function), values_of(ins, count, function, "ins"),
                            values_of(outs, count, function, "outs"), call_options_of(options));
      });
}

int tutti_store_all_to_all(tutti_store* store, tutti_key key, const tutti_tensor* in,
                           const tutti_tensor* out, const size_t* counts, size_t count_of_counts,
                           const tutti_call_options* options, tutti_pending** pending) {
  return submit(
      store, "tutti_store_all_to_all", pending, [&](tutti::KVStore& kv, const char* function) {
        return kv.all_to_all(keys_of(&key, 1, function).front(), at(in, function, "in").tensor,
                             at(out, function, "out").tensor,
                             counts_of(counts, count_of_counts, function),
                             call_options_of(options));
      });
}

int tutti_store_push(tutti_store* store, size_t count, const tutti_key* keys,
                     const tutti_values* values, const tutti_call_options* options,
                     tutti_pending** pending) {
  return submit(store, "tutti_store_push", pending, [&](tutti::KVStore& kv, const char* function) {
    return kv.push(keys_of(keys, count, function), values_of(values, count, function, "values"),
                   call_options_of(options));
  });
}

int tutti_store_pull(tutti_store* store, size_t count, const tutti_key* keys,
                     const tutti_values* outs, const tutti_call_options* options,
                     tutti_pending** pending) {
  return submit(store, "tutti_store_pull", pending, [&](tutti::KVStore& kv, const char* function) {
    return kv.pull(keys_of(keys, count, function), values_of(outs, count, function, "outs"),
                   call_options_of(options));
  });
}

int tutti_store_send(tutti_store* store, const tutti_tensor* tensor, int to_rank, int tag,
                     tutti_pending** pending) {
  static_assert(TUTTI_ANY_RANK == tutti::any_rank);
  return submit(store, "tutti_store_send", pending, [&](tutti::KVStore& kv, const char* function) {
    return kv.send(at(tensor, function, "tensor").tensor, to_rank, tag);
  });
}

int tutti_store_recv(tutti_store* store, const tutti_tensor* tensor, int from_rank, int tag,
                     int* source, tutti_pending** pending) {
  return submit(store, "tutti_store_recv", pending, [&](tutti::KVStore& kv, const char* function) {
    return kv.recv(at(tensor, function, "tensor").tensor, from_rank, tag, source);
  });
}

int tutti_store_init(tutti_store* store, size_t count, const tutti_key* keys,
                     const tutti_values* values) {
  return guarded([&, function = "tutti_store_init"] {
    store_of(store, function)
        .init(keys_of(keys, count, function), values_of(values, count, function, "values"));
  });
}

int tutti_store_row_sparse_pull(tutti_store* store, size_t count, const tutti_key* keys,
                                const tutti_values* outs, const tutti_tensor* const* row_ids) {
  return guarded([&, function = "tutti_store_row_sparse_pull"] {
    store_of(store, function)
        .row_sparse_pull(keys_of(keys, count, function), values_of(outs, count, function, "outs"),
                         tensors_of(row_ids, count, function, "row_ids"));
  });
}

int tutti_store_set_optimizer(tutti_store* store, const tutti_optimizer* optimizer) {
  return guarded([&, function = "tutti_store_set_optimizer"] {
    store_of(store, function)
        .set_optimizer(optimizer_of(at(optimizer, function, "optimizer"), function));
  });
}

int tutti_store_save_optimizer_states(tutti_store* store, const char* path, int dump_optimizer) {
  return guarded([&, function = "tutti_store_save_optimizer_states"] {
    store_of(store, function)
        .save_optimizer_states(&at(path, function, "path"), dump_optimizer != 0);
  });
}

int tutti_store_load_optimizer_states(tutti_store* store, const char* path) {
  return guarded([&, function = "tutti_store_load_optimizer_states"] {
    store_of(store, function).load_optimizer_states(&at(path, function, "path"));
  });
}

int tutti_store_set_gradient_compression(tutti_store* store, const char* kind, double threshold) {
  return guarded([&, function = "tutti_store_set_gradient_compression"] {
    store_of(store, function).set_gradient_compression(&at(kind, function, "kind"), threshold);
  });
}

int tutti_store_num_dead_node(tutti_store* store, int* count) {
  return guarded([&, function = "tutti_store_num_dead_node"] {
    int& into = at(count, function, "count");
    into = store_of(store, function).num_dead_node();
  });
}

int tutti_store_barrier(tutti_store* store) {
  return guarded([&, function = "tutti_store_barrier"] { store_of(store, function).barrier(); });
}

int tutti_store_join(tutti_store* store, int* last) {
  return guarded([&, function = "tutti_store_join"] {
    const int last_to_join = store_of(store, function).join();
    if (last != nullptr) *last = last_to_join;
  });
}

int tutti_store_allocate(tutti_store* store, const int64_t* dims, size_t rank, int dtype,
                         tutti_tensor** tensor) {
  return allocate(store, "tutti_store_allocate", dims, rank, dtype, {TUTTI_CPU, 0}, tensor);
}

int tutti_store_allocate_on(tutti_store* store, const int64_t* dims, size_t rank, int dtype,
                            tutti_device device, tutti_tensor** tensor) {
  return allocate(store, "tutti_store_allocate_on", dims, rank, dtype, device, tensor);
}
