#include "kvstore/server_store.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/exit_status.h"
#include "base/fork_guard.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/open_files.h"
#include "base/own_tensor.h"
#include "base/printable.h"
#include "base/sealed_file.h"
#include "kvstore/checks.h"
#include "kvstore/environment.h"
#include "kvstore/key_calls.h"
#include "kvstore/local_values.h"
#include "kvstore/methods.h"
#include "kvstore/rows.h"
#include "optimizer/catalogue.h"
#include "optimizer/saved.h"
#include "ps/link/job.h"
#include "ps/protocol/compression.h"
#include "ps/scheduler/scheduler.h"
#include "ps/server/server_process.h"
#include "ps/worker/worker.h"
#include "tutti/copy.h"
#include "tutti/server.h"

namespace tutti {
namespace {

std::optional<ps::Kind> task_kind_of(Method method) {
  switch (method) {
    case Method::init:
      return ps::Kind::init;
    case Method::broadcast:
      return ps::Kind::broadcast;
    case Method::push:
      return ps::Kind::push;
    case Method::pushpull:
      return ps::Kind::pushpull;
    default:
      return std::nullopt;
  }
}

bool reduces(Method method) {
  return method == Method::push || method == Method::pushpull;
}

/// The tensor that this worker contributes: the sum over its devices.
Tensor contribution(const MethodCall& call, const KeyCall& key_call) {
  if (key_call.ins.empty()) return {};
  if (!reduces(call.method) || key_call.ins.size() == 1) return key_call.ins.front();
  Tensor merged = base::own_tensor(key_call.any().shape(), key_call.any().dtype());
  merge(key_call.ins, merged, call.options.op);
  return merged;
}

class ServerStore : public Backend {
 public:
  ServerStore(const StoreType& type, std::unique_ptr<ps::Worker> worker)
      : Backend({.type = type.name,
                 .rank = worker->welcome().rank,
                 .size = worker->size(),
                 .local_rank = worker->welcome().place.local_rank,
                 .local_size = worker->welcome().place.local_size,
                 .nodes = worker->welcome().place.hosts,
                 .methods = {Method::init, Method::push, Method::pull, Method::pushpull,
                             Method::broadcast, Method::row_sparse_pull, Method::set_optimizer,
                             Method::save_optimizer_states, Method::load_optimizer_states,
                             Method::set_gradient_compression, Method::num_dead_node},
                 .sums_repeated_keys = true,
                 .moves_any_dtype = false}),
        worker_(std::move(worker)) {}
  ~ServerStore() override {
    if (!fork_.is_in_child()) return;
    worker_->abandon();
    // Threads that do not exist in this child may have held the worker's mutexes at the fork.
    static_cast<void>(worker_.release());
  }

  Pending submit(const MethodCall& call) override;
  void configure(const SettingCall& setting) override;
  void close() override {
    if (fork_.is_in_child()) return;
    base::refuse_in_callback("close()");
    worker_->close();
  }
  void end() override;
  void barrier() override {
    base::refuse_in_callback("barrier()");
    worker_->barrier();
  }
  int join() override {
    throw Error(ErrorCode::unsupported,
                "join is not supported by store type '" + traits().type +
                    "'; instead, give every worker the same number of steps");
  }
  Tensor allocate(const Shape& shape, DType dtype) override {
    return base::own_tensor(shape, dtype);
  }
  Counters counters() const override { return worker_->counters(); }
  int num_dead_node() const override { return worker_->lost_nodes(); }

 private:
  ps::Task task(const MethodCall& call, const Key& key, KeyCall& key_call) const;
  std::vector<ps::Task> tasks_of(const MethodCall& call) const;
  void check_compression(const MethodCall& call, const KeyCall& key_call, const Key& key) const;
  ps::Compression compression() const {
    const base::Lock lock(mutex_);
    return compression_;
  }
  void compress(const SettingCall& setting);
  void save_states(const SettingCall& setting);
  void load_states(const std::string& path);

  const base::ForkGuard fork_;
  mutable base::Mutex mutex_{5};
  ps::Compression compression_ TUTTI_GUARDED_BY(mutex_);
  std::unique_ptr<ps::Worker> worker_;
};

ps::Task ServerStore::task(const MethodCall& call, const Key& key, KeyCall& key_call) const {
  const Tensor& like = key_call.any();
  ps::Task task{.kind = task_kind_of(call.method),
                .key = key,
                .op = call.options.op,
                .root = call.root,
                .dtype = like.dtype(),
                .shape = like.shape(),
                .in = contribution(call, key_call),
                .priority = call.options.priority,
                .compression = compression(),
                .called = call.called};
  if (call.method != Method::broadcast || call.root != traits().rank) {
    task.outs = std::move(key_call.outs);
    return task;
  }
  for (const Tensor& out : key_call.outs) copy(task.in, out);
  return task;
}

/// Refuses the call here, because a server would not recognise it as a request.
void ServerStore::check_compression(const MethodCall& call, const KeyCall& key_call,
                                    const Key& key) const {
  const ps::Encoding encoding = compression().encoding;
  const bool is_quantised = encoding == ps::Encoding::two_bits || encoding == ps::Encoding::one_bit;
  const DType dtype = key_call.any().dtype();
  if (!reduces(call.method) || !is_quantised || ps::can_carry(encoding, dtype)) return;
  refuse(call, key,
         fmt::format("gradient compression '{}' takes f32, f16 and bf16, but the tensor is {}; "
                     "convert the tensor and copy the result back, or create the store without "
                     "compression",
                     name(encoding), name(dtype)));
}

std::vector<ps::Task> ServerStore::tasks_of(const MethodCall& call) const {
  std::vector<ps::Task> tasks;
  if (call.method == Method::row_sparse_pull) {
    for (std::size_t i = 0; i < call.keys.size(); ++i) {
      KeyCall key_call{.ins = {}, .outs = {call.outs[i].begin(), call.outs[i].end()}};
      ps::Task one = task(call, call.keys[i], key_call);
      one.rows = rows_of(call, i);
      tasks.push_back(std::move(one));
    }
    return tasks;
  }
  std::map<Key, KeyCall> calls = by_key(call);
  const bool is_first = call.method == Method::init || call.method == Method::broadcast;
  if (is_first && calls.size() < call.keys.size()) {
    refuse(call, call.keys.front(), "a key stands twice in this call; name each key once");
  }
  for (auto& [key, key_call] : calls) {
    check_alike(call, key, key_call);
    check_compression(call, key_call, key);
    tasks.push_back(task(call, key, key_call));
  }
  return tasks;
}

void ServerStore::end() {
  if (fork_.is_in_child()) return;
  base::abort_in_callback();
  try {
    worker_->close();
  } catch (const std::exception&) {
    base::fail_at_exit();
  }
}

Pending ServerStore::submit(const MethodCall& call) {
  // KVStore itself waits for these calls after it has submitted them.
  if (call.method == Method::init || call.method == Method::row_sparse_pull) {
    base::refuse_in_callback(name(call));
  }
  std::vector<ps::Task> tasks = tasks_of(call);
  const std::string first = tasks.front().describe();
  auto completion = std::make_shared<base::Completion>(
      tasks.size(),
      tasks.size() == 1 ? first : fmt::format("{} and {} more", first, tasks.size() - 1));
  worker_->submit(std::move(tasks), completion);
  return Pending(std::move(completion));
}

void ServerStore::configure(const SettingCall& setting) {
  base::refuse_in_callback(name(setting.method));
  switch (setting.method) {
    case Method::set_optimizer:
      return worker_->set_optimizer(*setting.optimizer);
    case Method::save_optimizer_states:
      return save_states(setting);
    case Method::load_optimizer_states:
      return load_states(setting.value);
    default:
      return compress(setting);
  }
}

void ServerStore::compress(const SettingCall& setting) {
  const ps::Compression chosen = ps::compression_named(setting.value, setting.threshold);
  if (setting.after_tensors)
    refuse_late(setting, ", which had already gone to the servers in another format");
  worker_->set_compression(chosen);
  const base::Lock lock(mutex_);
  compression_ = chosen;
}

void ServerStore::save_states(const SettingCall& setting) {
  optimizer::Saved saved = worker_->states();
  if (!setting.dump_optimizer) saved.optimizer.reset();
  base::write_sealed(setting.value, optimizer::write_saved(saved));
}

/// Reads the file. If the file names an optimizer, this version must know it.
optimizer::Saved saved_in(const std::string& path) {
  optimizer::Saved saved = optimizer::read_saved(base::read_sealed(path));
  if (saved.optimizer) static_cast<void>(optimizer::choose(*saved.optimizer));
  return saved;
}

/// The other workers wait until worker 0 says what is in its file. Worker 0 tells them even if
/// there is no file, or if it lacks the memory to read it.
void ServerStore::load_states(const std::string& path) {
  std::optional<optimizer::Saved> saved;
  std::optional<ps::Failure> failure;
  const auto fail = [&](ErrorCode code, const char* why) {
    failure = {code, fmt::format("load_optimizer_states: {}", why), {}};
  };
  try {
    if (traits().rank == 0) saved = saved_in(path);
  } catch (const Error& error) {
    fail(error.code(), error.what());
  } catch (const std::exception& error) {
    fail(ErrorCode::internal, error.what());
  }
  worker_->load_states(std::move(saved), std::move(failure));
}

/// PS_VERBOSE asks to log more than errors.
void show_connections(const ps::Job& job, const Options& options) {
  if (job.verbose > 0 && options.log_level == Options().log_level) base::set_log_level("info");
}

ps::Job job_of_worker(const StoreType& type, const Options& options) {
  if (!options.ranks.empty()) {
    throw Error(ErrorCode::unsupported, "Options::ranks is for 'dist_sync_mpi'; a store of type '" +
                                            type.name +
                                            "' is over all workers of the job; leave "
                                            "Options::ranks empty");
  }
  ps::Job job = ps::Job::from(process_environment());
  if (job.role == ps::Role::worker) return job;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("DMLC_ROLE={0} asks for a {0}, but this program is a worker; start "
                          "`tutti-server` with this environment instead",
                          name(job.role)));
}

}  // namespace

std::unique_ptr<Backend> make_server_backend(const StoreType& type, const Options& options) {
  const ps::Job job = job_of_worker(type, options);
  show_connections(job, options);
  if (!type.asynchronous && options.staleness.value_or(0) != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("staleness (TUTTI_STALENESS) is {}, but a store of type '{}' lets no "
                            "worker run ahead; leave the option out, or create a store of type "
                            "'dist_async'",
                            *options.staleness, type.name));
  }
  warn_of_no_timeline(options, "store type '" + type.name + "'");
  return std::make_unique<ServerStore>(
      type, std::make_unique<ps::Worker>(job, type.asynchronous, options));
}

namespace {

/// The number of files that a scheduler or server opens besides the connections of the job's
/// processes. These are the files of its state and of checkpoints, the descriptors on which it
/// sleeps, and some connections whose peers have not proved the key yet.
constexpr std::size_t own_files = 48;

void provide_files(const ps::Job& job) {
  base::raise_most_open_files();
  // A worker's process has one connection to the scheduler for itself, and one for each of its
  // stores.
  const int connections =
      job.role == ps::Role::scheduler ? 2 * job.size.workers + job.size.servers : job.size.workers;
  const std::size_t needed = own_files + static_cast<std::size_t>(connections);
  const auto most = base::most_open_files();
  if (!most || *most >= needed) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("this {} of a job with {} workers and {} servers needs {} open files, "
                          "but may have only {}; allow more with ulimit -n",
                          name(job.role), job.size.workers, job.size.servers, needed, *most));
}

}  // namespace

bool run_server(const Options& options, const Durability& durability) {
  check(options);
  base::set_log_level(options.log_level);
  const ps::Job job = ps::Job::from(process_environment());
  show_connections(job, options);
  if (job.role != ps::Role::worker) provide_files(job);
  switch (job.role) {
    case ps::Role::scheduler:
      if (durability.folder.empty()) return ps::run_scheduler(job, options);
      throw Error(ErrorCode::invalid_argument,
                  "the scheduler keeps no state; give --state to the servers only");
    case ps::Role::server:
      ps::run_server(job, options, durability);
      return true;
    case ps::Role::worker:
      break;
  }
  throw Error(ErrorCode::invalid_argument,
              "this process is to be a scheduler or a server: set DMLC_ROLE to one of them; "
              "workers are programs that create a store such as dist_sync");
}

}  // namespace tutti
