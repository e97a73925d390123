// Calls of every kind, drawn at random; run under mpirun with any number of ranks. STORE_TEST_SEED
// repeats a run's choices, STORE_TEST_STORES and STORE_TEST_WAITS make it longer.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <future>
#include <limits>
#include <numeric>
#include <set>

#include "numbers.h"
#include "store_fixture.h"
#include "tensors.h"

using namespace tutti;
using namespace store_test;

namespace {

constexpr std::size_t keys = 64;
constexpr int rounds = 6;

/// The facts on which the ranks agree.
struct Plan {
  bool broadcast = false;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::size_t count = 0;
  std::vector<int> devices;  ///< of each rank
  bool allocated = false;    ///< on every rank; otherwise each does as it likes
  std::uint64_t salt = 0;
  int joined = -1;  ///< the rank that has joined and brings nothing
  /// The scale of the values. 16 bits do not hold a sum of large values, but they hold the average.
  int scale = 1;
};

/// Sizes that programs use, and sizes at which errors are likely.
std::size_t random_count(std::mt19937_64& random) {
  switch (random() % 32) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return 400'000 + random() % 1000;
    case 3:
    case 4:
      return random() % 40'000;
    default:
      return random() % 300;
  }
}

std::vector<Plan> random_plans(std::mt19937_64& random, int ranks) {
  std::vector<Plan> plans(keys);
  for (Plan& plan : plans) {
    plan.broadcast = random() % 8 == 0;
    plan.dtype = all_dtypes[random() % std::size(all_dtypes)];
    plan.op = all_ops[random() % std::size(all_ops)];
    plan.root = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
    plan.count = random_count(random);
    for (int rank = 0; rank < ranks; ++rank) {
      plan.devices.push_back(random() % 4 == 0 ? 1 + static_cast<int>(random() % 3) : 1);
    }
    plan.allocated = random() % 3 == 0;
    plan.salt = random();
    const bool may_be_large = plan.dtype == DType::f16 && plan.op == ReduceOp::average;
    if (may_be_large && random() % 2 == 0) plan.scale = 4096;
  }
  return plans;
}

/// Whole numbers so small that every dtype holds the sum over 8 ranks with 3 devices each, or, of
/// large ones, over the devices.
double contribution(const Plan& plan, int rank, int device, std::size_t i) {
  const auto place = static_cast<std::uint64_t>(rank) * 3 + static_cast<std::uint64_t>(device);
  const std::uint64_t mixed = (plan.salt + place * 7919 + i * 15485863) * 0x9e3779b97f4a7c15U;
  const auto number = static_cast<int>((mixed >> 32) % 11);
  return plan.dtype == DType::u8 ? number : (number - 5) * plan.scale;
}

double expected(const Plan& plan, std::size_t i) {
  if (plan.broadcast) return contribution(plan, plan.root, 0, i);
  double sum = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (std::size_t rank = 0; rank < plan.devices.size(); ++rank) {
    if (static_cast<int>(rank) == plan.joined) continue;
    for (int device = 0; device < plan.devices[rank]; ++device) {
      const double value = contribution(plan, static_cast<int>(rank), device, i);
      sum += value;
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  const std::size_t ranks = plan.devices.size() - (plan.joined >= 0 ? 1 : 0);
  const double average = sum / static_cast<double>(ranks);
  switch (plan.op) {
    case ReduceOp::average:
      return numbers::is_integer(plan.dtype) ? std::trunc(average) : average;
    case ReduceOp::min:
      return least;
    case ReduceOp::max:
      return most;
    case ReduceOp::sum:
      break;
  }
  return sum;
}

/// How far a result may be off. Between nodes 16 bits hold what each node has of an average.
double tolerance(const Plan& plan, std::size_t i) {
  if (plan.op != ReduceOp::average || plan.broadcast) return 0;
  const double precision = numbers::precision(plan.dtype);
  if (size_of(plan.dtype) > 2) return precision * std::abs(expected(plan, i));
  double sum = 0;
  for (std::size_t rank = 0; rank < plan.devices.size(); ++rank) {
    if (static_cast<int>(rank) == plan.joined) continue;
    for (int device = 0; device < plan.devices[rank]; ++device) {
      sum += std::abs(contribution(plan, static_cast<int>(rank), device, i));
    }
  }
  const std::size_t ranks = plan.devices.size() - (plan.joined >= 0 ? 1 : 0);
  return precision * sum / static_cast<double>(ranks);
}

/// One key's tensors on this rank. The rank itself chooses where they are.
class Part {
 public:
  Part(KVStore& store, const Plan& plan, std::mt19937_64& own) : plan_(plan), rank_(store.rank()) {
    in_place_ = plan.broadcast || own() % 2 == 0;
    for (int device = 0; device < plan.devices[static_cast<std::size_t>(rank_)]; ++device) {
      ins_.push_back(make(store, device, own));
      outs_.push_back(in_place_ ? ins_.back() : make(store, device, own));
      for (std::size_t i = 0; i < plan.count; ++i) {
        numbers::put(ins_.back(), i, contribution(plan, rank_, device, i));
      }
    }
  }

  const std::vector<Tensor>& ins() const { return ins_; }
  const std::vector<Tensor>& outs() const { return outs_; }

  /// Results that are wrong, and inputs that have changed.
  std::size_t wrong() const {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < plan_.count; ++i) {
      const double right = expected(plan_, i);
      const double off = tolerance(plan_, i);
      for (std::size_t device = 0; device < outs_.size(); ++device) {
        const double is = numbers::get(outs_[device], i);
        wrong += !(std::abs(is - right) <= off) ? 1 : 0;
        if (in_place_) continue;
        const double in = contribution(plan_, rank_, static_cast<int>(device), i);
        wrong += numbers::get(ins_[device], i) != in ? 1 : 0;
      }
    }
    return wrong;
  }

 private:
  Tensor make(KVStore& store, int device, std::mt19937_64& own) const {
    const Shape shape{static_cast<std::int64_t>(plan_.count)};
    if (plan_.allocated || own() % 4 == 0) return store.allocate(shape, plan_.dtype);
    const std::size_t offset = own() % 2 == 0 ? 0 : own() % 64;
    const auto bytes =
        std::make_shared<std::vector<std::byte>>(plan_.count * size_of(plan_.dtype) + 64);
    return {std::shared_ptr<void>(bytes, bytes->data() + offset), shape, plan_.dtype,
            Device{Device::Kind::cpu, device}};
  }

  const Plan& plan_;
  int rank_;
  bool in_place_ = false;
  std::vector<Tensor> ins_, outs_;
};

/// Submits the keys in an order and at times of this rank's own, some of them several in a call.
std::vector<Pending> submit(KVStore& store, const std::vector<Plan>& plans,
                            const std::vector<Part>& parts, std::mt19937_64& own) {
  std::vector<std::size_t> order(keys);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), own);
  std::vector<Pending> pendings;
  for (std::size_t at = 0; at < keys;) {
    const Plan& plan = plans[order[at]];
    std::vector<Key> together;
    std::vector<Values> ins;
    std::vector<Values> outs;
    do {
      together.emplace_back("tensor " + std::to_string(order[at]));
      ins.emplace_back(parts[order[at]].ins());
      outs.emplace_back(parts[order[at]].outs());
      ++at;
    } while (at < keys && own() % 2 == 0 && plans[order[at]].broadcast == plan.broadcast &&
             plans[order[at]].op == plan.op && plans[order[at]].root == plan.root);
    const CallOptions options{.priority = static_cast<int>(own() % 10), .op = plan.op};
    pendings.push_back(plan.broadcast ? store.broadcast(together, outs, plan.root, options)
                                      : store.pushpull(together, ins, outs, options));
    if (own() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 1000));
  }
  std::shuffle(pendings.begin(), pendings.end(), own);
  return pendings;
}

Options random_options(std::mt19937_64& random) {
  constexpr std::size_t fusions[] = {0, 1000, 100'000, std::size_t{2} << 20};
  constexpr std::size_t parts[] = {0, 10'000, 300'000, std::size_t{4} << 20};
  constexpr std::size_t slices[] = {0, 2048, 4096, 50'000};
  Options options = Options::from_env();
  options.replay = random() % 2 == 0;
  options.fusion_bytes = fusions[random() % std::size(fusions)];
  options.part_bytes = parts[random() % std::size(parts)];
  options.slice_bytes = slices[random() % std::size(slices)];
  return options;
}

/// The rank that brings nothing in a round; -1 if all ranks bring something. Roots always come.
int random_joined(std::mt19937_64& random, std::vector<Plan>& plans, int ranks) {
  if (ranks == 1 || random() % 3 > 0) return -1;
  const int joined = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
  for (Plan& plan : plans) {
    plan.joined = joined;
    if (plan.root == joined) plan.root = (joined + 1) % ranks;
  }
  return joined;
}

/// Each exchanges one plan after the other; the last ones are the same with other values, so that
/// replay has something to do. In some rounds a rank has joined.
void exchange(KVStore& store, std::mt19937_64& shared, std::mt19937_64& own,
              std::set<std::pair<DType, ReduceOp>>& seen) {
  std::mt19937_64 before;
  std::mt19937_64 of_joins(shared());
  for (int round = 0; round < rounds; ++round) {
    if (round > 3) shared = before;
    before = shared;
    std::vector<Plan> plans = random_plans(shared, store.num_workers());
    const int joined = random_joined(of_joins, plans, store.num_workers());
    for (Plan& plan : plans) {
      plan.salt += static_cast<std::uint64_t>(round);
      if (!plan.broadcast) seen.emplace(plan.dtype, plan.op);
    }
    if (joined == store.rank()) {
      store.join();
      continue;
    }
    std::vector<Part> parts;
    parts.reserve(plans.size());
    for (const Plan& plan : plans) parts.emplace_back(store, plan, own);
    for (const Pending& pending : submit(store, plans, parts, own)) pending.wait();
    for (std::size_t key = 0; key < keys; ++key) {
      const Plan& plan = plans[key];
      INFO("round " << round << ", tensor " << key << ": "
                    << (plan.broadcast ? "broadcast" : name(plan.op)) << " of " << plan.count << " "
                    << name(plan.dtype));
      CHECK(parts[key].wrong() == 0);
    }
    if (joined >= 0) store.join();
  }
}

/// The text that this process has written to its standard error. It is passed on at the end.
class ErrorOutput {
 public:
  ErrorOutput() { ::dup2(::fileno(file_), STDERR_FILENO); }
  ~ErrorOutput() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    std::fputs(text().c_str(), stderr);
    std::fclose(file_);
  }
  ErrorOutput(const ErrorOutput&) = delete;
  ErrorOutput& operator=(const ErrorOutput&) = delete;
  std::string text() const {
    std::string text(static_cast<std::size_t>(::lseek(::fileno(file_), 0, SEEK_END)), ' ');
    const ssize_t read = ::pread(::fileno(file_), text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(read, 0)));
    return text;
  }

 private:
  const int before_ = ::dup(STDERR_FILENO);
  std::FILE* const file_ = std::tmpfile();
};

void await_callback(const Pending& pending) {
  const auto called = std::make_shared<std::promise<void>>();
  pending.then([called](const std::exception_ptr&) { called->set_value(); });
  called->get_future().wait();
}

/// Waits in one of the ways in which programs wait: for as long as it takes, for a moment again and
/// again, by looking now and then, or for a callback.
void await_in_some_way(const Pending& pending, std::mt19937_64& own) {
  switch (own() % 4) {
    case 0:
      return pending.wait();
    case 1:
      while (!pending.wait_for(std::chrono::microseconds(own() % 10'000))) {
      }
      return;
    case 2:
      while (!pending.done()) std::this_thread::sleep_for(std::chrono::microseconds(500));
      return;
    default:
      return await_callback(pending);
  }
}

/// Tensors in a random order, one by one or in one call, all of them awaited in some way. The
/// longest that a turn took.
std::chrono::duration<double> wait_in_every_way(KVStore& store, int turns, std::mt19937_64& own) {
  constexpr std::size_t counts[] = {126'505, 59, 692, 1186, 45, 36, 24, 49, 2826};
  std::vector<std::vector<float>> values;
  for (const std::size_t count : counts) values.emplace_back(count);
  std::vector<std::size_t> order(std::size(counts));
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto sum = static_cast<float>(store.num_workers());
  std::chrono::duration<double> longest{};
  for (int turn = 0; turn < turns; ++turn) {
    const auto start = std::chrono::steady_clock::now();
    std::shuffle(order.begin(), order.end(), own);
    std::vector<Key> names;
    std::vector<Values> tensors;
    for (const std::size_t i : order) {
      std::fill(values[i].begin(), values[i].end(), 1.0F);
      names.emplace_back(static_cast<std::int64_t>(i));
      tensors.emplace_back(
          Tensor(values[i].data(), {static_cast<std::int64_t>(values[i].size())}, DType::f32));
    }
    std::vector<Pending> pendings;
    if (own() % 3 == 0) {
      pendings.push_back(store.pushpull(names, tensors, tensors));
    } else {
      for (std::size_t i = 0; i < names.size(); ++i) {
        pendings.push_back(store.pushpull(names[i], tensors[i], tensors[i]));
      }
    }
    if (own() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 3000));
    std::shuffle(pendings.begin(), pendings.end(), own);
    for (const Pending& pending : pendings) await_in_some_way(pending, own);
    for (const std::vector<float>& tensor : values) {
      if (tensor.front() != sum || tensor.back() != sum) FAIL_CHECK("turn " << turn << ": wrong");
    }
    longest =
        std::max<std::chrono::duration<double>>(longest, std::chrono::steady_clock::now() - start);
  }
  return longest;
}

}  // namespace

TEST_CASE("any dtype, operation, size, memory, device, order and setting gives the right result") {
  std::set<std::pair<DType, ReduceOp>> seen;
  try_stores(3, random_options, [&](KVStore& store, std::mt19937_64& shared, std::mt19937_64& own) {
    exchange(store, shared, own, seen);
  });
  CHECK(seen.size() == std::size(all_dtypes) * std::size(all_ops));
}

TEST_CASE("calls end without a stall in whatever ways their ranks wait for them") {
  const char* const given = std::getenv("STORE_TEST_WAITS");
  const int turns = given != nullptr ? std::atoi(given) : 400;
  std::mt19937_64 own(agreed_seed() * 31 + static_cast<std::uint64_t>(make_store()->rank()));
  const ErrorOutput logged;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4096}}) {
    Options options = Options::from_env();
    options.log_level = "warning";
    options.stall_report_after = std::chrono::seconds(1);
    if (bytes > 0) options.fusion_bytes = options.part_bytes = bytes;
    const auto store = make_store(options);
    // A sleeping call may go on when the time for a report has come, and none is written.
    CHECK(wait_in_every_way(*store, turns / 2, own) < options.stall_report_after);
  }
  CHECK_THAT(logged.text(), !Catch::Contains("nothing has moved"));
}
