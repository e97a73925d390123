#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/arguments.h"
#include "python/bound.h"
#include "python/gpu_array.h"
#include "tutti/kvstore.h"

namespace tutti::python {

namespace nb = nanobind;

/// The rank whose array a recv took. -1 until that is known.
struct Source {
  std::shared_ptr<const int> rank;
};

/// A KVStore that Python owns. Its methods need the GIL, and give it up while the library works. So
/// no method keeps another Python thread from doing what the method waits for.
class Store {
 public:
  /// Blocks, also for other ranks. `check_finite` checks this rank's arrays before a call takes
  /// them; see `refuse_infinite`.
  Store(const std::string& type, const nb::dict& options, bool check_finite);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& type() const { return type_; }
  int rank() const { return rank_; }
  int num_workers() const { return num_workers_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  int nodes() const { return nodes_; }
  bool is_closed() const { return store_ == nullptr; }

  Pending pushpull(nb::handle key, nb::handle ins, nb::handle outs, nb::handle priority,
                   nb::handle op);
  /// Blocks, also for other ranks, unless a signal's handler raises an exception.
  void allreduce(nb::handle key, nb::handle ins, nb::handle outs, nb::handle op);
  BoundArrays bind(nb::handle key, nb::handle ins, nb::handle outs, nb::handle priority,
                   nb::handle op);
  Pending broadcast(nb::handle key, nb::handle value, nb::handle root_rank, nb::handle priority);
  Pending reduce_scatter(nb::handle key, nb::handle ins, nb::handle outs, nb::handle priority,
                         nb::handle op);
  Pending allgather(nb::handle key, nb::handle ins, nb::handle outs, nb::handle priority);
  Pending all_to_all(nb::handle key, nb::handle ins, nb::handle outs,
                     const std::vector<std::size_t>& counts, nb::handle priority);
  Pending send(nb::handle value, nb::handle to_rank, nb::handle tag);
  /// Also returns the rank that has sent the array, once the call is done. If `from_rank` is None,
  /// any rank may send it.
  std::pair<Pending, Source> recv(nb::handle value, nb::handle from_rank, nb::handle tag);
  void init(nb::handle key, nb::handle value);
  Pending push(nb::handle key, nb::handle value, nb::handle priority, nb::handle op);
  Pending pull(nb::handle key, nb::handle out, nb::handle priority);
  void row_sparse_pull(nb::handle key, nb::handle out, nb::handle row_ids);
  /// `parameters` are numbers by name. `factors` are the factors of the learning rate and of wd, by
  /// key.
  void set_optimizer(std::string_view name, const nb::dict& parameters, const nb::dict& factors);
  void save_optimizer_states(const std::string& fname, bool dump_optimizer);
  void load_optimizer_states(const std::string& fname);

  void set_gradient_compression(std::string_view kind, double threshold);
  int num_dead_node();
  void barrier();
  int join();
  /// The bytes of an array of this shape and dtype.
  nb::object allocate(const std::vector<std::int64_t>& shape, std::string_view dtype);
  GpuArray allocate_on(const std::vector<std::int64_t>& shape, std::string_view dtype, int gpu);
  /// Return `tutti.types.Counters`, and a list of `tutti.types.Choice`.
  nb::object counters();
  nb::object choices();

  /// The store, which lives as long as the caller keeps it. Throws `aborted` if it is closed.
  std::shared_ptr<KVStore> opened(std::string_view method) const;
  /// Throws `aborted` if the store is closed.
  void require_open(std::string_view method) const { static_cast<void>(opened(method)); }
  /// Does the same as the library's `close`. Does nothing if the store is already closed.
  void close();
  /// Called at the end of the store's `with` block. Closes the store unless this exception ends the
  /// block.
  void leave_block(nb::handle raised);
  /// Called at the end of the interpreter. Open stores outlive it: they are closed when the process
  /// exits with status 0. With another status they are left open, so that the other ranks take this
  /// one for lost.
  static void outlive_interpreter();
  /// Sets the hook that gets the exit status before the stores are closed.
  static void call_last(std::function<void(int)> call);
  /// For that hook, if threads still use objects that exit would destroy. Ends the process at once,
  /// after the line that the library would log about open stores. `why` is a line before that, or
  /// "".
  [[noreturn]] static void end_process(int status, const std::string& why = "");

 private:
  Store(std::shared_ptr<KVStore> store, bool check_finite);

  /// The open stores, oldest first. The GIL guards the list.
  static std::vector<Store*>& open_stores();
  /// The arguments of a call. Throws if the store is closed, before it looks at any array.
  Arguments arguments_of(std::string_view method, nb::handle key) const;
  /// Drops the reference to the store. The last owner closes it.
  void drop();
  /// Runs `call` on the store without the GIL, and returns what it returns.
  template <typename Call>
  auto run(std::string_view method, const Call& call);
  /// Does the same as `run`, for calls that may wait for other ranks. It is `interruptible`, so
  /// `call` must own the objects that it uses.
  template <typename Call>
  auto run_interruptible(std::string_view method, Call call);
  /// With tensors on a GPU does the same as `run`, and otherwise as `run_interruptible`. Only on
  /// the caller's thread are a thread's default stream and its current GPU those of the caller.
  /// Stores that take such tensors here wait for no other rank, and for a GPU only until
  /// `key_timeout`.
  template <typename Call>
  void run_beside(std::span<const Values> values, std::string_view method, Call call);
  /// With `check_finite`, throws the same errors as `refuse_infinite`.
  void check(std::string_view method, const Arguments& arguments, std::span<const Values> values,
             bool first_alone = false) const;

  std::shared_ptr<KVStore> store_;
  const bool check_finite_;
  bool closing_ = false;
  const std::string type_;
  const int rank_;
  const int num_workers_;
  const int local_rank_;
  const int local_size_;
  const int nodes_;
};

/// The class KVStore, and the functions with which the package makes and ends stores.
void bind_store(nb::module_& module);

}  // namespace tutti::python
