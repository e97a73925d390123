#include "unit/ps/lateness.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "ps/rows.h"
#include "ps/wire.h"
#include "tutti/shard.h"
#include "unit/errors.h"

namespace tutti::ps::lateness {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t keys = 3;
constexpr int patient = 40;  ///< attempts, of what must succeed in the end

Key name_of(std::size_t key) {
  return Key(static_cast<std::int64_t>(key));
}
std::uint32_t pieces_of(std::size_t key) {
  return static_cast<std::uint32_t>(key) + 1;
}
Shape shape_of(std::size_t key) {
  return {static_cast<std::int64_t>(2 * pieces_of(key))};
}

}  // namespace

/// One worker: the program, and what the library's thread does for it.
class Worker {
 public:
  Worker(World& world, int rank)
      : world_(world),
        rank_(rank),
        requests_(rank, static_cast<std::size_t>(world.plan_.servers),
                  {.stall_report_after = 10h,
                   .timeout = world.plan_.timeout,
                   .answer_within = 1h,
                   .send = [this](std::size_t server,
                                  const ToServer& said) { world_.send(rank_, server, said); },
                   .clock = [this] { return world_.now_; }},
                  tally_),
        outboxes_(static_cast<std::size_t>(world.plan_.servers)),
        is_sending_(outboxes_.size()) {
    begin_step();
  }

  void take(std::size_t server, const Answer& answer) { requests_.take(server, answer); }
  std::optional<Clock::time_point> due() {
    const auto due = requests_.due();
    const auto widens = requests_.window().due();
    if (!due || !widens) return due ? due : widens;
    return std::min(*due, *widens);
  }
  bool is_done() const { return step_ == world_.plan_.steps.size(); }
  void look() {
    requests_.look(world_.now_);
    requests_.window().look(world_.now_);
    go_on();
    fill();
  }

  std::vector<End> ends;

 private:
  struct Open {
    Made made;
    std::shared_ptr<base::Completion> completion;
    std::unique_ptr<std::vector<float>> values;
  };
  const Step& step() const { return world_.plan_.steps[step_]; }

  void begin_step() {
    if (is_done()) return;
    attempt_ = 1;
    is_late_ = true;
    world_.after(step().lateness[static_cast<std::size_t>(rank_)], [this] {
      is_late_ = false;
      begin_phase(0);
    });
  }

  void begin_phase(std::size_t phase) {
    phase_ = phase;
    for (const Made& made : step().phases[phase]) open_.push_back(make(made));
    fill();
  }

  /// Once all calls of a phase are over.
  void go_on() {
    const auto is_over = [](const Open& one) { return one.completion->is_done(); };
    if (is_done() || is_late_ || !std::ranges::all_of(open_, is_over)) return;
    // Nobody has a part in a pull, so the program makes it again alone.
    bool pulls_again = false;
    for (Open& one : open_) {
      const bool is_pull = one.made.what == Made::What::pull || one.made.what == Made::What::row;
      if (!is_pull || !End{one.made, end_of(one)}.is_late()) continue;
      one = make(one.made);
      pulls_again = true;
    }
    if (pulls_again) return;
    bool failed = false;
    for (const Open& one : std::exchange(open_, {})) {
      ends.push_back({one.made, end_of(one)});
      failed = failed || ends.back().is_late();
    }
    if (!failed && phase_ + 1 < step().phases.size()) return begin_phase(phase_ + 1);
    if (failed && attempt_++ < step().attempts) return begin_phase(0);
    ++step_;
    begin_step();
  }

  std::string end_of(const Open& one) const {
    std::string error = error_of([&] { one.completion->wait_until(world_.now_); });
    if (error != "no error") return error;
    if (one.made.what == Made::What::row) return fmt::format("row {}", one.values->front());
    const bool is_whole =
        std::ranges::adjacent_find(*one.values, std::not_equal_to()) == one.values->end();
    return is_whole ? fmt::format("{}", one.values->front()) : "torn";
  }

  Open make(const Made& made) {
    const auto call = std::make_shared<Call>();
    Open one{made, nullptr,
             std::make_unique<std::vector<float>>(shape_of(made.key).count(),
                                                  made.base * static_cast<float>(rank_ + 1))};
    if (made.what == Made::What::optimizer) {
      call->is_setting = true;
      call->what = "set_optimizer";
    } else {
      const Tensor values(one.values->data(), shape_of(made.key), DType::f32);
      Task& task = call->task;
      task = {.key = name_of(made.key), .root = made.root, .shape = shape_of(made.key)};
      if (made.what == Made::What::round) {
        task.kind = made.kind;
        task.in = values;
      }
      if (made.what == Made::What::row) task.rows = {0};
      if (!task.kind || wants_data({.kind = made.kind, .root = made.root}, rank_)) {
        task.outs = {values};
      }
      call->key = task.key;
      call->kind = task.kind;
      call->what = task.describe();
    }
    call->completion = one.completion = std::make_shared<base::Completion>(1, call->what);
    if (call->is_setting) {
      send_setting(call, made);
      return one;
    }
    const std::uint32_t pieces = pieces_of(made.key);
    const std::uint32_t concerned = made.what == Made::What::row ? 1 : pieces;
    requests_.begin(call, concerned);
    for (std::uint32_t piece = 0; piece < concerned; ++piece) {
      outboxes_[piece % outboxes_.size()].add({call, piece, pieces});
    }
    return one;
  }

  void send_setting(const std::shared_ptr<Call>& call, const Made& made) {
    requests_.begin(call, outboxes_.size());
    for (std::size_t server = 0; server < outboxes_.size(); ++server) {
      const std::uint64_t sequence = requests_.add(server, call, static_cast<std::uint32_t>(server),
                                                   static_cast<std::uint32_t>(outboxes_.size()));
      world_.send(rank_, server,
                  SetOptimizer{sequence, {"sgd", {{"learning_rate", double{made.base}}}}});
    }
  }

  /// One piece after the other leaves.
  void fill() {
    for (std::size_t server = 0; server < outboxes_.size(); ++server) {
      Outbox& outbox = outboxes_[server];
      if (is_sending_[server] || outbox.empty() || outbox.next().call->is_undecided) continue;
      if (!requests_.window().lets_through(server)) continue;
      send_piece(server, outbox.take());
      is_sending_[server] = true;
      world_.after(world_.up_to(world_.plan_.slowest_piece), [this, server] {
        is_sending_[server] = false;
        fill();
      });
    }
  }

  void send_piece(std::size_t server, const Outbox::Entry& entry) {
    const Call& call = *entry.call;
    if (!call.withdrawn && !call.completion) return;
    const Task& task = call.task;
    const PieceName name{*call.key, entry.piece, entry.pieces};
    const std::uint64_t sequence =
        requests_.add(server, entry.call, entry.piece, entry.pieces, 4096);
    if (call.withdrawn) {
      if (!call.kind) return;
      return world_.send(rank_, server, Withdrawal{sequence, name, *call.kind, *call.withdrawn});
    }
    const Shard mine =
        shard(task.shape.count(), static_cast<int>(entry.piece), static_cast<int>(entry.pieces));
    if (!task.kind) {
      Pull pull{sequence, name, task.dtype, task.shape};
      if (task.rows) pull.rows = rows_within(*task.rows, task.shape, mine);
      return world_.send(rank_, server, pull);
    }
    Contribution said{sequence, name, *task.kind, task.op, task.root, task.dtype, task.shape};
    if (brings_data(said, rank_)) {
      said.data = {task.in.as<const std::byte>() + mine.begin * sizeof(float),
                   mine.count() * sizeof(float)};
    }
    world_.send(rank_, server, said);
  }

  World& world_;
  const int rank_;
  Tally tally_;
  Requests requests_;
  std::vector<Outbox> outboxes_;
  std::vector<bool> is_sending_;
  std::vector<Open> open_;
  std::size_t step_ = 0;
  std::size_t phase_ = 0;
  int attempt_ = 0;
  bool is_late_ = false;
};

World::World(Plan plan, std::uint64_t seed) : plan_(std::move(plan)), random_(seed) {
  for (int server = 0; server < plan_.servers; ++server) {
    tables_.push_back(new_table(static_cast<std::size_t>(server)));
  }
  for (int worker = 0; worker < plan_.workers; ++worker) {
    workers_.push_back(std::make_unique<Worker>(*this, worker));
  }
}
World::~World() = default;

std::unique_ptr<Table> World::new_table(std::size_t server) {
  return std::make_unique<Table>(Rules{
      .workers = plan_.workers,
      .asynchronous = plan_.asynchronous,
      .staleness = plan_.staleness,
      .send = [this, server](int worker, const Answer& one) { answer(server, worker, one); }});
}

/// What it has said before is on its way still.
void World::restart(std::size_t server) {
  ArchiveWriter to;
  tables_[server]->save(to);
  const net::Bytes state = to.take();
  ArchiveReader from(state);
  tables_[server] = new_table(server);
  tables_[server]->load(from);
  from.finish();
}

Clock::duration World::up_to(Clock::duration most) {
  return Clock::duration(random_() % static_cast<std::uint64_t>(most.count() + 1));
}

void World::after(Clock::duration time, Event event) {
  events_.emplace(now_ + time, std::move(event));
}

void World::deliver(Clock::time_point& last, Event event) {
  last = std::max(last, now_ + up_to(plan_.slowest_message));
  events_.emplace(last, std::move(event));
}

void World::send(int worker, std::size_t server, const ToServer& said) {
  deliver(last_up_[{worker, server}], [this, worker, server, bytes = encode(said)] {
    if (plan_.restarts && random_() % 16 == 0) restart(server);
    tables_[server]->receive(worker, decode_to_server(bytes));
  });
}

void World::answer(std::size_t server, int worker, const Answer& answer) {
  deliver(last_down_[{worker, server}], [this, server, worker, bytes = encode(answer)] {
    workers_[static_cast<std::size_t>(worker)]->take(server, decode_answer(bytes));
  });
}

bool World::run() {
  for (;;) {
    for (const auto& worker : workers_) worker->look();
    if (std::ranges::all_of(workers_, [](const auto& worker) { return worker->is_done(); })) {
      return true;
    }
    auto next = Clock::time_point::max();
    if (!events_.empty()) next = events_.begin()->first;
    for (const auto& worker : workers_) next = std::min(next, worker->due().value_or(next));
    if (next == Clock::time_point::max()) return false;
    now_ = std::max(now_, next);
    while (!events_.empty() && events_.begin()->first <= now_) {
      auto event = events_.extract(events_.begin());
      event.mapped()();
    }
  }
}

const std::vector<End>& World::ends_of(int worker) const {
  return workers_.at(static_cast<std::size_t>(worker))->ends;
}

float World::stored(std::size_t key) const {
  std::vector<float> all;
  for (const auto& table : tables_) {
    for (const Table::Content& one : table->contents()) {
      if (one.name.key != name_of(key)) continue;
      const auto* const values = one.content.elements.as<const float>();
      all.insert(all.end(), values, values + one.content.elements.count());
    }
  }
  CHECK(std::ranges::adjacent_find(all, std::not_equal_to()) == all.end());
  return all.at(0);
}

namespace {

/// What the calls of one worker after the other have to come to. All make the same.
class Model {
 public:
  explicit Model(int workers)
      : values_(keys), sum_(static_cast<float>(workers * (workers + 1)) / 2) {}

  float stored(std::size_t key) const { return values_[key].value(); }
  /// How a call ends that does not time out; empty: with nothing to compare.
  std::string end(const Made& made) {
    std::optional<float>& value = values_[made.key];
    if (made.what == Made::What::optimizer) {
      rate_ = made.base;
      return "";
    }
    if (made.what == Made::What::pull) return fmt::format("{}", value.value());
    if (made.what == Made::What::row) return fmt::format("row {}", value.value());
    const float sum = made.base * sum_;
    switch (made.kind) {
      case Kind::init:
        value = made.base;
        return "";
      case Kind::broadcast:
        value = made.base * static_cast<float>(made.root + 1);
        return fmt::format("{}", *value);
      case Kind::pushpull:
        if (!value) return fmt::format("{}", sum);
        break;
      case Kind::push:
        break;
    }
    value = rate_ > 0 ? *value - rate_ * sum : sum;
    return made.kind == Kind::push ? "" : fmt::format("{}", *value);
  }

 private:
  std::vector<std::optional<float>> values_;
  float rate_ = 0;  ///< 0: there is no optimizer
  const float sum_;
};

}  // namespace

void check(const Plan& plan, const World& world) {
  const std::vector<End>& ends = world.ends_of(0);
  for (int worker = 1; worker < plan.workers; ++worker) {
    for (std::size_t i = 0; i < std::min(ends.size(), world.ends_of(worker).size()); ++i) {
      INFO("call " << i << " of worker " << worker);
      const End& other = world.ends_of(worker)[i];
      REQUIRE((other.is_late() ? other.text : "") == (ends[i].is_late() ? ends[i].text : ""));
    }
    REQUIRE(world.ends_of(worker).size() == ends.size());
  }
  Model model(plan.workers);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::string right = ends[i].is_late() ? ends[i].text : model.end(ends[i].made);
    for (int worker = 0; worker < plan.workers; ++worker) {
      const End& end = world.ends_of(worker)[i];
      if (right.empty()) CHECK_FALSE(end.is_late());
      if (!right.empty()) CHECK(end.text == right);
    }
  }
  for (std::size_t key = 1; key < keys; ++key) CHECK(world.stored(key) == model.stored(key));
}

void check_asynchronous(const Plan& plan, const World& world) {
  std::vector<std::vector<std::string>> broadcasts(static_cast<std::size_t>(plan.workers));
  float left = 0;
  for (int worker = 0; worker < plan.workers; ++worker) {
    for (const End& end : world.ends_of(worker)) {
      const bool is_round = end.made.what == Made::What::round;
      if (is_round && end.made.kind == Kind::broadcast) {
        broadcasts[static_cast<std::size_t>(worker)].push_back(end.text);
      } else if (is_round && end.made.kind == Kind::push && !end.is_late()) {
        left -= end.made.base * static_cast<float>(worker + 1);
      }
    }
  }
  for (const auto& of_worker : broadcasts) CHECK(of_worker == broadcasts[0]);
  CHECK(world.stored(1) == left);
}

Plan plan_of(std::uint64_t seed, bool asynchronous) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t most) { return random() % most; };
  Plan plan{.workers = 2 + static_cast<int>(below(2)),
            .servers = 1 + static_cast<int>(below(2)),
            .asynchronous = asynchronous,
            .timeout = 100ms,
            .slowest_message = below(2) == 0 ? 1ms : 8ms,
            .slowest_piece = below(3) == 0 ? 40ms : 2ms,
            .restarts = below(2) == 0};
  const auto add = [&](std::vector<std::vector<Made>> phases, int attempts) {
    Step step{.phases = std::move(phases), .attempts = attempts};
    for (int worker = 0; worker < plan.workers; ++worker) {
      // On time, at any time, or about when the others' time is up.
      const std::array<Clock::duration, 4> choices{
          0ms, std::chrono::microseconds(below(300'000)),
          plan.timeout + std::chrono::microseconds(below(10'000)) - 5ms, 0ms};
      step.lateness.push_back(choices.at(below(choices.size())));
    }
    plan.steps.push_back(std::move(step));
  };
  using What = Made::What;
  const int attempts = std::array{1, 2, patient}.at(below(3));
  if (asynchronous) {
    plan.staleness = 1 + static_cast<int>(below(2));
    add({{Made{.kind = Kind::init, .key = 1, .base = 0}}}, patient);
    add({{Made{.what = What::optimizer, .base = 1}}}, patient);
    for (int i = 0; i < 12; ++i) {
      const float base = static_cast<float>(1 + below(8));
      if (below(3) > 0) add({{Made{.kind = Kind::push, .key = 1, .base = base}}}, patient);
      if (below(3) == 0) {
        add({{Made{.kind = Kind::broadcast, .key = 2, .root = i % plan.workers, .base = base}}},
            attempts);
      }
    }
    return plan;
  }
  bool has_optimizer = false;
  // Key 0 is only reduced, until it is broadcast; the others have a value first.
  for (std::size_t key = 1; key < keys; ++key) {
    add({{Made{.kind = Kind::init, .key = key, .base = 0}}}, patient);
  }
  for (int i = 1; i <= 12; ++i) {
    const float base = static_cast<float>(1 + below(8));
    const std::size_t key = 1 + below(keys - 1);
    const int root = static_cast<int>(below(static_cast<std::uint64_t>(plan.workers)));
    switch (below(7)) {
      case 0:
        add({{Made{.kind = Kind::pushpull, .key = key, .base = base}}}, attempts);
        break;
      case 1:
        add({{Made{.kind = Kind::push, .key = key, .base = base},
              Made{.what = What::pull, .key = key}}},
            attempts);
        break;
      case 2:
        has_optimizer = true;
        add({{Made{.what = What::optimizer, .base = base}}}, attempts);
        break;
      case 3:  // as an object: its size, then what it is
        add({{Made{.kind = Kind::broadcast, .key = 1, .root = root, .base = base}},
             {Made{.kind = Kind::broadcast, .key = 2, .root = root, .base = base + 1}}},
            attempts);
        break;
      case 4:
        add({{Made{.kind = Kind::push, .key = 1, .base = base},
              Made{.kind = Kind::pushpull, .key = has_optimizer ? 1U : 0U, .base = base},
              Made{.kind = Kind::push, .key = 2, .base = base}}},
            attempts);
        break;
      case 5:
        add({{Made{.kind = Kind::push, .key = key, .base = base},
              Made{.kind = Kind::push, .key = key, .base = base + 1},
              Made{.kind = Kind::pushpull, .key = key, .base = base + 2}}},
            attempts);
        break;
      default:
        add({{Made{.kind = Kind::push, .key = key, .base = base}},
             {Made{.what = What::row, .key = key}}},
            attempts);
    }
  }
  return plan;
}

}  // namespace tutti::ps::lateness
