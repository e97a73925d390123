#pragma once
#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "python/arguments.h"
#include "tutti/kvstore.h"

namespace tutti::python {

namespace nb = nanobind;

/// A KVStore that Python owns. Its methods need the GIL, which they give up while the library
/// works, so that none keeps another Python thread from what it waits for.
class Store {
 public:
  static std::unique_ptr<Store> create(const std::string& type, const nb::dict& options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& type() const { return type_; }
  int rank() const { return rank_; }
  int num_workers() const { return num_workers_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  int nodes() const { return nodes_; }

  Pending pushpull(nb::handle key, nb::handle ins, nb::handle outs, int priority,
                   std::string_view op);
  Pending broadcast(nb::handle key, nb::handle value, int root_rank, int priority);
  Pending reduce_scatter(nb::handle key, nb::handle ins, nb::handle outs, int priority,
                         std::string_view op);
  Pending allgather(nb::handle key, nb::handle ins, nb::handle outs, int priority);
  void init(nb::handle key, nb::handle value);
  Pending push(nb::handle key, nb::handle value, int priority, std::string_view op);
  Pending pull(nb::handle key, nb::handle out, int priority);
  void row_sparse_pull(nb::handle key, nb::handle out, nb::handle row_ids);
  void set_optimizer(nb::handle optimizer);
  void save_optimizer_states(const std::string& fname, bool dump_optimizer);
  void load_optimizer_states(const std::string& fname);

  void set_gradient_compression(std::string_view kind);
  void barrier();
  int join();
  nb::object allocate(nb::handle shape, nb::handle dtype);
  /// `tutti.types.Counters`, and a list of `tutti.types.Choice`.
  nb::object counters();
  nb::object choices();

  /// The store, which lives as long as the caller has it. Throws `aborted` when it is closed.
  std::shared_ptr<KVStore> opened(std::string_view method) const;
  /// Nothing if the store is closed already.
  void close();
  /// At the end of its `with` block: closes the store unless that ends by this exception.
  void leave_block(nb::handle raised);
  /// At the end of the interpreter, which the stores that are open outlive: they are closed when
  /// the process exits with status 0. With another status they are left open, so that to the other
  /// ranks this one is lost.
  static void outlive_interpreter();
  /// `call` runs first when the process exits, and is given the exit status.
  static void call_last(std::function<void(int status)> call);

 private:
  explicit Store(std::shared_ptr<KVStore> store);

  /// Runs `call` on the store without the GIL, and returns what it returns.
  template <typename Call>
  auto run(std::string_view method, const Call& call);

  std::shared_ptr<KVStore> store_;
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
