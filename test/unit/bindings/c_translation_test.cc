// Each function of tutti/c.h passes on all of its arguments, and returns all results. There is one
// row for each, over a store that writes down its calls. The tests of C++ try how a real store
// answers.
#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "../base/stderr_of.h"
#include "base/completion.h"
#include "c/handles.h"
#include "recording_store.h"
#include "tutti/c.h"

using namespace tutti;

namespace {

constexpr tutti_device cpu = {TUTTI_CPU, 0};
constexpr std::array<std::int64_t, 2> dims{2, 3};

/// A handle of C.
template <typename Handle, void (*destroy)(Handle*)>
struct Held {
  Handle* handle = nullptr;
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { destroy(handle); }
};
using HeldTensor = Held<tutti_tensor, tutti_tensor_destroy>;
using HeldPending = Held<tutti_pending, tutti_pending_destroy>;
using HeldBound = Held<tutti_bound, tutti_bound_destroy>;
using HeldOptions = Held<tutti_options, tutti_options_destroy>;
using HeldFacts = Held<tutti_facts, tutti_facts_destroy>;
using HeldStore = Held<tutti_store, tutti_store_destroy>;

tutti_key named(const char* text) {
  return {text, 0};
}

/// A store of C, and tensors: a to f of 6 floats each, s of 2, and r of one row's number.
class Scene {
 public:
  Scene() {
    auto backend = std::make_unique<RecordingStore>();
    recording = backend.get();
    store.store = std::make_unique<KVStore>(std::move(backend));
    for (const char name : {'a', 'b', 'c', 'd', 'e', 'f'}) make(name, 6, TUTTI_F32);
    make('s', 2, TUTTI_F32);
    make('r', 1, TUTTI_I64);
  }

  const tutti_tensor* operator[](char name) const { return tensors_.at(name).handle; }
  std::string heard() { return recording->take_heard(); }

  RecordingStore* recording = nullptr;
  tutti_store store;

 private:
  void make(char name, std::int64_t count, int dtype) {
    std::vector<std::int64_t>& memory = memory_[name];
    memory.assign(static_cast<std::size_t>(count), 0);
    CHECK(tutti_tensor_create(memory.data(), &count, 1, dtype, cpu, nullptr, nullptr,
                              &tensors_[name].handle) == TUTTI_OK);
    recording->name(memory.data(), std::string(1, name));
  }

  std::map<char, std::vector<std::int64_t>> memory_;
  std::map<char, HeldTensor> tensors_;
};

/// Two keys of a call. The second one has two tensors.
struct Lists {
  Lists(const Scene& scene, const std::string& names)
      : tensors{scene[names[0]], scene[names[1]], scene[names[2]]},
        values{{{tensors.data(), 1}, {tensors.data() + 1, 2}}} {}
  std::array<const tutti_tensor*, 3> tensors;
  std::array<tutti_values, 2> values;
};

const std::array<tutti_key, 2> keys{named("v"), named("w")};
constexpr tutti_call_options urgent = {5, TUTTI_AVERAGE};

std::string shown(const tutti_facts* facts) {
  std::string text;
  for (std::size_t i = 0; i < facts->count; ++i) {
    const tutti_fact& fact = facts->facts[i];
    text += fmt::format("{}={}", fact.name, fact.value);
    if (fact.origin != nullptr) text += fmt::format(" by {}", fact.origin);
    text += "; ";
  }
  return text;
}

std::string shown(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts) text += fmt::format("{}={}; ", fact.name, fact.value);
  return text;
}

std::string shown(const tutti_error& error) {
  std::string text = fmt::format("{} '{}'", tutti_code_name(error.code), error.message);
  if (error.has_key != 0) {
    text += error.key.text != nullptr ? fmt::format(" of {}", error.key.text)
                                      : fmt::format(" of {}", error.key.integer);
  }
  for (std::size_t i = 0; i < error.rank_count; ++i) text += fmt::format(" {}", error.ranks[i]);
  return text;
}

/// The code of a call, what the store heard, and whether its outcome is there.
std::string outcome(Scene& scene, int code, const HeldPending& pending) {
  return fmt::format(
      "{} {}{}", code, scene.heard(),
      pending.handle != nullptr && tutti_pending_done(pending.handle) == 1 ? " done" : "");
}

std::string outcome(Scene& scene, int code) {
  return fmt::format("{} {}", code, scene.heard());
}

/// A pending of C whose call is done when the completion is.
struct Open {
  explicit Open(Scene& scene, std::shared_ptr<const base::StreamOrder> order = nullptr)
      : completion(std::make_shared<base::Completion>(1, "a call", std::weak_ptr<base::Driver>(),
                                                      std::move(order))) {
    scene.recording->answer_by(completion);
    Lists lists(scene, "abc");
    CHECK(tutti_store_pull(&scene.store, 2, keys.data(), lists.values.data(), nullptr,
                           &pending.handle) == TUTTI_OK);
    scene.heard();
  }
  const std::shared_ptr<base::Completion> completion;
  HeldPending pending;
};

std::exception_ptr failure() {
  return std::make_exception_ptr(
      Error(ErrorCode::mismatch, "they differ", {.key = 7, .ranks = {1, 2}}));
}

struct Row {
  std::string expected;
  std::function<std::string(Scene&)> call;
};
using Table = std::map<std::string, Row>;

/// Makes the row of a function that takes a list of keys, and a list of tensors for each key.
template <typename Function>
Row row_of_lists(const std::string& expected, Function function) {
  return {expected, [function](Scene& scene) {
            Lists ins(scene, "abc");
            HeldPending pending;
            const int code = function(&scene.store, ins.values.data(), &pending.handle);
            return outcome(scene, code, pending);
          }};
}

void add_exchanges(Table& table) {
  table["tutti_store_allreduce"] = {
      "0 pushpull 'v' 'w' in a,b+c out d,e+f root 0 priority 5 average", [](Scene& scene) {
        Lists ins(scene, "abc");
        Lists outs(scene, "def");
        const int code = tutti_store_allreduce(&scene.store, 2, keys.data(), ins.values.data(),
                                               outs.values.data(), &urgent);
        return outcome(scene, code);
      }};
  table["tutti_store_pushpull"] = {
      "0 pushpull 'v' 'w' in a,b+c out d,e+f root 0 priority 5 average done", [](Scene& scene) {
        Lists ins(scene, "abc");
        Lists outs(scene, "def");
        HeldPending pending;
        const int code = tutti_store_pushpull(&scene.store, 2, keys.data(), ins.values.data(),
                                              outs.values.data(), &urgent, &pending.handle);
        return outcome(scene, code, pending);
      }};
  table["tutti_store_broadcast"] = row_of_lists(
      "0 broadcast 'v' 'w' in -,- out a,b+c root 2 priority 5 sum done",
      [](tutti_store* store, const tutti_values* values, tutti_pending** pending) {
        return tutti_store_broadcast(store, 2, keys.data(), values, 2, &urgent, pending);
      });
  table["tutti_store_push"] =
      row_of_lists("0 push 'v' 'w' in a,b+c root 0 priority 5 average done",
                   [](tutti_store* store, const tutti_values* values, tutti_pending** pending) {
                     return tutti_store_push(store, 2, keys.data(), values, &urgent, pending);
                   });
  table["tutti_store_pull"] =
      row_of_lists("0 pull 'v' 'w' out a,b+c root 0 priority 5 sum done",
                   [](tutti_store* store, const tutti_values* values, tutti_pending** pending) {
                     return tutti_store_pull(store, 2, keys.data(), values, &urgent, pending);
                   });
  table["tutti_store_init"] =
      row_of_lists("0 init 'v' 'w' in a,b+c root 0 priority 0 sum",
                   [](tutti_store* store, const tutti_values* values, tutti_pending**) {
                     return tutti_store_init(store, 2, keys.data(), values);
                   });
  table["tutti_store_row_sparse_pull"] = {
      "0 row_sparse_pull 'v' 'w' out a,b+c rows r rows r root 0 priority 0 sum", [](Scene& scene) {
        Lists outs(scene, "abc");
        const std::array<const tutti_tensor*, 2> rows{scene['r'], scene['r']};
        return outcome(scene, tutti_store_row_sparse_pull(&scene.store, 2, keys.data(),
                                                          outs.values.data(), rows.data()));
      }};
}

/// One key with one tensor in and one out.
template <typename Function>
Row row_of_halves(const std::string& expected, char in, char out, Function function) {
  return {expected, [=](Scene& scene) {
            const tutti_tensor* const from = scene[in];
            const tutti_tensor* const to = scene[out];
            const tutti_values ins = {&from, 1};
            const tutti_values outs = {&to, 1};
            HeldPending pending;
            const int code =
                function(&scene.store, 1, keys.data(), &ins, &outs, &urgent, &pending.handle);
            return outcome(scene, code, pending);
          }};
}

void add_halves_and_peers(Table& table) {
  table["tutti_store_reduce_scatter"] =
      row_of_halves("0 reduce_scatter 'v' in a out s root 0 priority 5 average done", 'a', 's',
                    tutti_store_reduce_scatter);
  table["tutti_store_allgather"] = row_of_halves(
      "0 allgather 'v' in s out a root 0 priority 5 sum done", 's', 'a', tutti_store_allgather);
  table["tutti_store_all_to_all"] = {
      "0 all_to_all 7 in a out b 0 1 0 1 2 3 2 3 1 root 0 priority 5 sum done", [](Scene& scene) {
        const std::array<std::size_t, 9> counts{0, 1, 0, 1, 2, 3, 2, 3, 1};
        HeldPending pending;
        const int code =
            tutti_store_all_to_all(&scene.store, {nullptr, 7}, scene['a'], scene['b'],
                                   counts.data(), counts.size(), &urgent, &pending.handle);
        return outcome(scene, code, pending);
      }};
  table["tutti_store_send"] = {"0 send a peer 2 tag 9 done", [](Scene& scene) {
                                 HeldPending pending;
                                 const int code = tutti_store_send(&scene.store, scene['a'], 2, 9,
                                                                   &pending.handle);
                                 return outcome(scene, code, pending);
                               }};
  table["tutti_store_recv"] = {
      "0 recv a peer -1 tag 9 done from 2", [](Scene& scene) {
        HeldPending pending;
        int source = -1;
        const int code =
            tutti_store_recv(&scene.store, scene['a'], TUTTI_ANY_RANK, 9, &source, &pending.handle);
        return outcome(scene, code, pending) + fmt::format(" from {}", source);
      }};
}

void add_settings(Table& table) {
  table["tutti_store_set_optimizer"] = {
      "0 set_optimizer sgd is sgd learning_rate=0.5 momentum=0.25 'v': 2 and 3", [](Scene& scene) {
        const std::array<tutti_parameter, 2> parameters{
            {{"learning_rate", 0.5}, {"momentum", 0.25}}};
        const tutti_factors factors = {named("v"), 2, 3};
        const tutti_optimizer sgd = {"sgd", parameters.data(), parameters.size(), &factors, 1};
        return outcome(scene, tutti_store_set_optimizer(&scene.store, &sgd));
      }};
  table["tutti_store_save_optimizer_states"] = {
      "0 save_optimizer_states x and the optimizer; save_optimizer_states y", [](Scene& scene) {
        tutti_store_save_optimizer_states(&scene.store, "x", 1);
        return outcome(scene, tutti_store_save_optimizer_states(&scene.store, "y", 0));
      }};
  table["tutti_store_load_optimizer_states"] = {
      "0 load_optimizer_states x", [](Scene& scene) {
        return outcome(scene, tutti_store_load_optimizer_states(&scene.store, "x"));
      }};
  table["tutti_store_set_gradient_compression"] = {
      "0 set_gradient_compression 2bit 0.25", [](Scene& scene) {
        return outcome(scene, tutti_store_set_gradient_compression(&scene.store, "2bit", 0.25));
      }};
  table["tutti_store_num_dead_node"] = {"0  4", [](Scene& scene) {
                                          int dead = 0;
                                          const int code =
                                              tutti_store_num_dead_node(&scene.store, &dead);
                                          return outcome(scene, code) + fmt::format(" {}", dead);
                                        }};
  table["tutti_store_barrier"] = {
      "0 barrier", [](Scene& scene) { return outcome(scene, tutti_store_barrier(&scene.store)); }};
  table["tutti_store_join"] = {"0 join 2", [](Scene& scene) {
                                 int last = 0;
                                 const int code = tutti_store_join(&scene.store, &last);
                                 return outcome(scene, code) + fmt::format(" {}", last);
                               }};
  table["tutti_store_close"] = {
      "0 close", [](Scene& scene) { return outcome(scene, tutti_store_close(&scene.store)); }};
}

/// Adds the functions that ask a store about itself.
void add_answers(Table& table) {
  const auto number = [](int (*function)(const tutti_store*)) {
    return [function](Scene& scene) { return fmt::format("{}", function(&scene.store)); };
  };
  table["tutti_store_rank"] = {"1", number(tutti_store_rank)};
  table["tutti_store_num_workers"] = {"3", number(tutti_store_num_workers)};
  table["tutti_store_local_rank"] = {"0", number(tutti_store_local_rank)};
  table["tutti_store_local_size"] = {"2", number(tutti_store_local_size)};
  table["tutti_store_nodes"] = {"5", number(tutti_store_nodes)};
  table["tutti_store_type"] = {
      "recording", [](Scene& scene) { return std::string(tutti_store_type(&scene.store)); }};
  table["tutti_store_counters"] = {
      "0 1 2 3 4 5 6 7 8 9 10 11 12 13", [](Scene& scene) {
        tutti_counters c{};
        const int code = tutti_store_counters(&scene.store, &c, sizeof c);
        return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {}", code, c.tensors_reduced,
                           c.bytes_reduced, c.tensors_broadcast, c.bytes_broadcast,
                           c.tensors_gathered, c.bytes_gathered, c.batches, c.control_messages,
                           c.bytes_between_nodes, c.nodes, c.buffer_bytes, c.allocated_bytes,
                           c.allocated_peak_bytes);
      }};
  table["tutti_store_choices"] = {
      "0 part size=4M by TUTTI_PART_BYTES; wire=fp16 by program; ", [](Scene& scene) {
        HeldFacts facts;
        const int code = tutti_store_choices(&scene.store, &facts.handle);
        return fmt::format("{} {}", code, shown(facts.handle));
      }};
}

void add_tensors(Table& table) {
  const auto with = [](int dtype, tutti_device device, const auto& ask) {
    return [=](Scene&) {
      std::array<double, 6> memory{};
      HeldTensor tensor;
      const int code = tutti_tensor_create(memory.data(), dims.data(), dims.size(), dtype, device,
                                           nullptr, nullptr, &tensor.handle);
      return fmt::format("{} {}", code, ask(tensor.handle, memory.data()));
    };
  };
  table["tutti_tensor_create"] = {"0 gives back 1", [](Scene&) {
                                    int given_back = 0;
                                    HeldTensor tensor;
                                    const int code = tutti_tensor_create(
                                        &given_back, nullptr, 0, TUTTI_I32, cpu,
                                        [](void* context) { ++*static_cast<int*>(context); },
                                        &given_back, &tensor.handle);
                                    tutti_tensor_destroy(std::exchange(tensor.handle, nullptr));
                                    return fmt::format("{} gives back {}", code, given_back);
                                  }};
  table["tutti_tensor_data"] = {"0 true", with(TUTTI_F64, cpu, [](auto* tensor, void* memory) {
                                  return tutti_tensor_data(tensor) == memory;
                                })};
  table["tutti_tensor_dims"] = {"0 2: 2 3", with(TUTTI_F64, cpu, [](auto* tensor, void*) {
                                  std::size_t rank = 0;
                                  const std::int64_t* const all = tutti_tensor_dims(tensor, &rank);
                                  return fmt::format("{}: {} {}", rank, all[0], all[1]);
                                })};
  table["tutti_tensor_dtype"] = {"0 true", with(TUTTI_BF16, cpu, [](auto* tensor, void*) {
                                   return tutti_tensor_dtype(tensor) == TUTTI_BF16;
                                 })};
  table["tutti_tensor_device"] = {
      "0 true 3", with(TUTTI_F32, tutti_device{TUTTI_GPU, 3}, [](auto* tensor, void*) {
        const tutti_device device = tutti_tensor_device(tensor);
        return fmt::format("{} {}", device.kind == TUTTI_GPU, device.index);
      })};
  table["tutti_tensor_count"] = {
      "0 6", with(TUTTI_F32, cpu, [](auto* tensor, void*) { return tutti_tensor_count(tensor); })};
  table["tutti_tensor_bytes"] = {
      "0 12", with(TUTTI_F16, cpu, [](auto* tensor, void*) { return tutti_tensor_bytes(tensor); })};
  table["tutti_tensor_set_stream"] = {
      "0 0 true", with(TUTTI_F32, tutti_device{TUTTI_GPU, 0}, [](auto* tensor, void* memory) {
        const int code = tutti_tensor_set_stream(tensor, memory);
        return fmt::format("{} {}", code, tensor->tensor.stream().handle() == memory);
      })};
  table["tutti_tensor_copy"] = {
      "0 7", [](Scene&) {
        double from = 7;
        double to = 0;
        HeldTensor a;
        HeldTensor b;
        tutti_tensor_create(&from, nullptr, 0, TUTTI_F64, cpu, nullptr, nullptr, &a.handle);
        tutti_tensor_create(&to, nullptr, 0, TUTTI_F64, cpu, nullptr, nullptr, &b.handle);
        const int code = tutti_tensor_copy(a.handle, b.handle);
        return fmt::format("{} {}", code, to);
      }};
  table["tutti_store_allocate"] = {
      "0 allocate (2, 3) f64 48", [](Scene& scene) {
        HeldTensor tensor;
        const int code =
            tutti_store_allocate(&scene.store, dims.data(), 2, TUTTI_F64, &tensor.handle);
        return outcome(scene, code) + fmt::format(" {}", tutti_tensor_bytes(tensor.handle));
      }};
  table["tutti_store_allocate_on"] = {
      "unsupported 'allocate on gpu(3): a store of type 'recording' takes tensors on the CPU; "
      "allocate there, or create a store of another type, such as 'dist_sync_mpi' or 'device''",
      [](Scene& scene) {
        HeldTensor tensor;
        tutti_store_allocate_on(&scene.store, dims.data(), 2, TUTTI_F64, {TUTTI_GPU, 3},
                                &tensor.handle);
        return shown(*tutti_last_error());
      }};
}

void add_outcomes(Table& table) {
  table["tutti_pending_wait"] = {"mismatch 'they differ' of 7 1 2", [](Scene& scene) {
                                   const Open open(scene);
                                   open.completion->finish(failure());
                                   CHECK(tutti_pending_wait(open.pending.handle) == TUTTI_MISMATCH);
                                   return shown(*tutti_last_error());
                                 }};
  table["tutti_pending_wait_for"] = {
      "0 0, then 0 1, and 1 of a call that failed", [](Scene& scene) {
        const Open open(scene);
        int before = -1;
        int after = -1;
        int failed = -1;
        const int first = tutti_pending_wait_for(open.pending.handle, 0.001, &before);
        open.completion->finish();
        const int second = tutti_pending_wait_for(open.pending.handle, 0, &after);
        const Open failing(scene);
        failing.completion->finish(failure());
        CHECK(tutti_pending_wait_for(failing.pending.handle, 0, &failed) == TUTTI_MISMATCH);
        return fmt::format("{} {}, then {} {}, and {} of a call that failed", first, before, second,
                           after, failed);
      }};
  table["tutti_pending_wait_on"] = {
      "0 true", [](Scene& scene) {
        const auto order = std::make_shared<RecordingOrder>();
        const Open open(scene, order);
        open.completion->issue();
        int stream = 0;
        const int code = tutti_pending_wait_on(open.pending.handle, &stream);
        open.completion->finish();
        return fmt::format("{} {}", code, static_cast<void*>(order->held) == &stream);
      }};
  table["tutti_pending_done"] = {"0, then 1", [](Scene& scene) {
                                   const Open open(scene);
                                   const int before = tutti_pending_done(open.pending.handle);
                                   open.completion->finish();
                                   return fmt::format("{}, then {}", before,
                                                      tutti_pending_done(open.pending.handle));
                                 }};
  table["tutti_pending_then"] = {"0: mismatch 'they differ' of 7 1 2", [](Scene& scene) {
                                   const Open open(scene);
                                   std::string told;
                                   const int code = tutti_pending_then(
                                       open.pending.handle,
                                       [](void* context, const tutti_error* error) {
                                         *static_cast<std::string*>(context) = shown(*error);
                                       },
                                       &told);
                                   open.completion->finish(failure());
                                   return fmt::format("{}: {}", code, told);
                                 }};
  table["tutti_last_error"] = {
      "timeout 'too late' of v 0", [](Scene& scene) {
        scene.recording->fail_next(
            Error(ErrorCode::timeout, "too late", {.key = "v", .ranks = {0}}));
        CHECK(tutti_store_send(&scene.store, scene['a'], 2, 9, nullptr) == TUTTI_TIMEOUT);
        return shown(*tutti_last_error());
      }};
}

/// A binding of C.
struct Binding {
  explicit Binding(Scene& scene) : ins(scene, "abc"), outs(scene, "def") {
    code = tutti_store_bind(&scene.store, 2, keys.data(), ins.values.data(), outs.values.data(),
                            &urgent, &bound.handle);
  }
  Lists ins;
  Lists outs;
  HeldBound bound;
  int code = -1;
};

void add_bound_calls(Table& table) {
  const std::string call = "pushpull 'v' 'w' in a,b+c out d,e+f root 0 priority 5 average";
  table["tutti_store_bind"] = {"0 , then " + call, [](Scene& scene) {
                                 const Binding binding(scene);
                                 const std::string before = outcome(scene, binding.code);
                                 binding.bound.handle->bound.run();
                                 return before + ", then " + scene.heard();
                               }};
  table["tutti_bound_start"] = {
      "0 " + call + " done, then 0 " + call, [](Scene& scene) {
        const Binding binding(scene);
        HeldPending pending;
        const int first = tutti_bound_start(binding.bound.handle, &pending.handle);
        const std::string text = outcome(scene, first, pending);
        return text + ", then " + outcome(scene, tutti_bound_start(binding.bound.handle, nullptr));
      }};
  table["tutti_bound_wait"] = {
      "0, then mismatch 'they differ' of 7 1 2", [](Scene& scene) {
        const Binding binding(scene);
        const int before = tutti_bound_wait(binding.bound.handle);
        const auto completion = std::make_shared<base::Completion>(1, "a call");
        scene.recording->answer_by(completion);
        tutti_bound_start(binding.bound.handle, nullptr);
        completion->finish(failure());
        CHECK(tutti_bound_wait(binding.bound.handle) == TUTTI_MISMATCH);
        return fmt::format("{}, then {}", before, shown(*tutti_last_error()));
      }};
  table["tutti_bound_run"] = {"0 " + call, [](Scene& scene) {
                                const Binding binding(scene);
                                return outcome(scene, tutti_bound_run(binding.bound.handle));
                              }};
}

void add_options(Table& table) {
  const auto described = [](tutti_options* options) {
    HeldFacts facts;
    CHECK(tutti_options_describe(options, &facts.handle) == TUTTI_OK);
    return shown(facts.handle);
  };
  table["tutti_options_create"] = {shown(describe(Options())), [=](Scene&) {
                                     HeldOptions options;
                                     tutti_options_create(&options.handle);
                                     return described(options.handle);
                                   }};
  table["tutti_options_from_env"] = {shown(describe(Options::from_env())), [=](Scene&) {
                                       HeldOptions options;
                                       tutti_options_from_env(&options.handle);
                                       return described(options.handle);
                                     }};
  table["tutti_options_describe"] = {shown(describe(Options::from_env())),
                                     [=](Scene&) { return described(nullptr); }};
  Options small;
  small.set("part_bytes", "1M");
  table["tutti_options_set"] = {shown(describe(small)), [=](Scene&) {
                                  HeldOptions options;
                                  tutti_options_create(&options.handle);
                                  tutti_options_set(options.handle, "part_bytes", "1M");
                                  return described(options.handle);
                                }};
  table["tutti_most_buffer_bytes"] = {fmt::format("{}", most_buffer_bytes(small, 4, 3)),
                                      [](Scene&) {
                                        HeldOptions options;
                                        tutti_options_create(&options.handle);
                                        tutti_options_set(options.handle, "part_bytes", "1M");
                                        std::uint64_t bytes = 0;
                                        tutti_most_buffer_bytes(options.handle, 4, 3, &bytes);
                                        return fmt::format("{}", bytes);
                                      }};
  table["tutti_store_create"] = {
      "0 device 1 line of timeline.json", [](Scene&) {
        HeldOptions options;
        HeldStore store;
        tutti_options_create(&options.handle);
        tutti_options_set(options.handle, "timeline", "timeline.json");
        int code = -1;
        const std::string said =
            stderr_of([&] { code = tutti_store_create("device", options.handle, &store.handle); });
        return fmt::format(
            "{} {} {} line of {}", code, tutti_store_type(store.handle), lines_of(said).size(),
            said.find("timeline.json") == std::string::npos ? said : "timeline.json");
      }};
}

void add_facts(Table& table) {
  const auto of = [](int (*function)(tutti_facts**)) {
    return [function](Scene&) {
      HeldFacts facts;
      CHECK(function(&facts.handle) == TUTTI_OK);
      return shown(facts.handle);
    };
  };
  table["tutti_build_info"] = {shown(build_info()), of(tutti_build_info)};
  table["tutti_gpu_info"] = {shown(gpu_info()), of(tutti_gpu_info)};
  table["tutti_version"] = {std::string(version()),
                            [](Scene&) { return std::string(tutti_version()); }};
  table["tutti_build_type"] = {std::string(build_type()),
                               [](Scene&) { return std::string(tutti_build_type()); }};
  table["tutti_code_name"] = {"ok peer_lost unknown", [](Scene&) {
                                return fmt::format("{} {} {}", tutti_code_name(TUTTI_OK),
                                                   tutti_code_name(TUTTI_PEER_LOST),
                                                   tutti_code_name(99));
                              }};
  const Shard share = shard(10, 1, 3);
  table["tutti_shard"] = {fmt::format("0 {} {}", share.begin, share.end), [](Scene&) {
                            std::size_t begin = 0;
                            std::size_t end = 0;
                            const int code = tutti_shard(10, 1, 3, &begin, &end);
                            return fmt::format("{} {} {}", code, begin, end);
                          }};
}

Table table() {
  Table all;
  for (const auto add : {add_exchanges, add_halves_and_peers, add_settings, add_answers,
                         add_tensors, add_outcomes, add_bound_calls, add_options, add_facts}) {
    add(all);
  }
  return all;
}

/// Functions that give back a handle have no result; each row uses them.
const std::set<std::string> destroyers = {"tutti_options_destroy", "tutti_facts_destroy",
                                          "tutti_tensor_destroy",  "tutti_store_destroy",
                                          "tutti_pending_destroy", "tutti_bound_destroy"};

std::set<std::string> functions_of_the_header() {
  std::ifstream file(TUTTI_C_HEADER);
  std::stringstream text;
  text << file.rdbuf();
  const std::string header = text.str();
  const std::regex declaration(R"(TUTTI_EXPORT[^;(]*?\b(tutti_\w+)\()");
  std::set<std::string> names;
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

}  // namespace

TEST_CASE("each function of C passes on its arguments and hands out what comes back") {
  for (const auto& [function, row] : table()) {
    INFO(function);
    Scene scene;
    CHECK(row.call(scene) == row.expected);
  }
}

TEST_CASE("each function of C has its row") {
  std::set<std::string> named = destroyers;
  for (const auto& [function, row] : table()) named.insert(function);
  CHECK(functions_of_the_header() == named);
}

TEST_CASE("each code, dtype, reduction and way of naming a key is passed on") {
  Scene scene;
  for (int code = TUTTI_INVALID_ARGUMENT; code <= TUTTI_INTERNAL; ++code) {
    scene.recording->fail_next(Error(static_cast<ErrorCode>(code), "text", {}));
    CHECK(tutti_store_send(&scene.store, scene['a'], 2, 9, nullptr) == code);
    CHECK(shown(*tutti_last_error()) == fmt::format("{} 'text'", tutti_code_name(code)));
  }
  for (int dtype = TUTTI_F16; dtype <= TUTTI_B128; ++dtype) {
    HeldTensor tensor;
    CHECK(tutti_store_allocate(&scene.store, nullptr, 0, dtype, &tensor.handle) == TUTTI_OK);
    CHECK(tutti_tensor_dtype(tensor.handle) == dtype);
    CHECK(tensor.handle->tensor.dtype() == static_cast<DType>(dtype));
  }
  scene.heard();
  const std::array<std::string, 4> names{"sum", "average", "min", "max"};
  const tutti_tensor* const tensor = scene['a'];
  const tutti_values values = {&tensor, 1};
  const tutti_key seven = {nullptr, 7};
  for (int op = TUTTI_SUM; op <= TUTTI_MAX; ++op) {
    const tutti_call_options options = {0, op};
    CHECK(tutti_store_push(&scene.store, 1, &seven, &values, &options, nullptr) == TUTTI_OK);
    CHECK(scene.heard() ==
          "push 7 in a root 0 priority 0 " + names.at(static_cast<std::size_t>(op)));
  }
}
